"""Computes one claimed run: from the stored configuration to the final status."""

import dataclasses
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from engine.config.schema import RunConfig
from engine.core.devices import set_threads
from engine.core.errors import CheckpointInvalid
from engine.core.lockstep import Lockstep
from engine.core.vocabulary import MODELS_OF, When
from engine.export import saved_models
from engine.simulation.simulate import Simulation
from engine.worker.executor import Ticket
from engine.worker.failures import reason
from engine.worker.limits import MIB, MODELS_MB, enforce_model_limit, max_models_bytes
from engine.worker.recorder import CHECKPOINT, CHECKPOINT_KINDS, CHECKPOINT_ROWS, Recorder, Stop
from engine.worker.retry import until_available
from storage import (
    FINISHED,
    ArtifactDamaged,
    ArtifactNotWritten,
    ArtifactRecord,
    NewArtifact,
    Status,
    StorageError,
    Store,
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended, or that it paused; ``error`` says why it did not complete."""

    status: Status
    error: str | None = None


class Session:
    """The owner of one claimed run. All writes go through its recorder or raise Fenced once the claim is lost."""

    def __init__(self, store: Store, ticket: Ticket, threads: int, lockstep: Lockstep | None = None) -> None:
        """``lockstep``: of the runs that it is trained together with."""
        self.store, self.ticket, self.threads, self.lockstep = store, ticket, threads, lockstep
        self.recorder = Recorder(store, ticket.run_id, ticket.epoch)
        self.simulation: Simulation | None = None
        self._described: list[str] | None = None  # the warnings stored in the provenance

    def run(self) -> None:
        outcome = self._outcome()
        if self.simulation is not None:
            self._describe(self.simulation)  # warnings added during the run
        if self.recorder.finish(outcome.status, outcome.error) in FINISHED:  # it will not be resumed
            for kind in CHECKPOINT_KINDS:
                until_available(partial(self.store.artifacts.keep_last, self.ticket.run_id, kind, 0))
            until_available(lambda: enforce_model_limit(self.store))

    def _outcome(self) -> Outcome:
        try:
            return self._compute()
        except Stop as stop:
            return self._stopped(stop)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  methods and data sets may be third-party plugins
            why = until_available(partial(reason, self.store, self.ticket.run_id, error))
            return Outcome(status="failed", error=why)

    def _compute(self) -> Outcome:
        run = until_available(lambda: self.store.queue.get(self.ticket.run_id))
        config = RunConfig.from_dict(run.config)
        set_threads(config.machine.threads or self.threads)
        tick = self.recorder.tick
        simulation = Simulation(
            config, data_dir=self.ticket.data_dir, tick=tick, progress=lambda *_: tick(), lockstep=self.lockstep
        )
        self.simulation = simulation
        self._describe(simulation)
        self._resume(simulation, run.round)
        return self._train(simulation, config)

    def _resume(self, simulation: Simulation, stored_round: int) -> None:
        """Restores the newest usable checkpoint and deletes the rounds after it, which are computed again."""
        checkpoints = until_available(lambda: self.store.artifacts.list(self.ticket.run_id, CHECKPOINT))
        rows = until_available(lambda: self.store.artifacts.list(self.ticket.run_id, CHECKPOINT_ROWS))
        parts = {record.sha256: record for record in rows}
        for record in checkpoints:
            try:
                simulation.restore(self.store.artifacts.read(record), partial(self._read_part, parts))
                break
            except (CheckpointInvalid, ArtifactDamaged) as error:
                self.recorder.warn(CHECKPOINT, f"the checkpoint of round {record.round} is skipped: {error}")
        self.recorder.round, self.recorder.parts = simulation.round, [set(simulation.parts)]
        if stored_round > simulation.round:
            until_available(lambda: self.store.metrics.rewind(self.ticket.run_id, self.ticket.epoch, simulation.round))
        for kind in MODELS_OF.values() if stored_round >= 0 else ():
            until_available(partial(self.store.artifacts.keep_last, self.ticket.run_id, kind, 0, self.ticket.epoch))

    def _train(self, simulation: Simulation, config: RunConfig) -> Outcome:
        for result in simulation.rounds():
            is_last = result.diverged is not None or result.round == config.training.rounds
            self.recorder.add(result, simulation.summary(), is_last)
            if result.diverged:
                self._store_models(simulation)
                why = f"{result.diverged} in round {result.round}; try a smaller learning rate"
                return Outcome(status="diverged", error=why)
            if self.recorder.checkpoint_is_due(config.machine.checkpoint_s):
                self._checkpoint(simulation)
        self._store_models(simulation)
        return Outcome(status="done")

    def _checkpoint(self, simulation: Simulation) -> None:
        self.recorder.checkpoint(simulation.checkpoint, lambda: simulation.parts)

    def _read_part(self, parts: Mapping[str, ArtifactRecord], sha256: str) -> bytes:
        """A part of a checkpoint. Raises CheckpointInvalid if it is gone."""
        if sha256 not in parts:
            raise CheckpointInvalid("one of its files is missing")
        return self.store.artifacts.read(parts[sha256])

    def _stopped(self, stop: Stop) -> Outcome:
        if stop.control == "cancel":
            return Outcome(status="cancelled")
        simulation = self.simulation
        # Stopped during an evaluation: the state is a round ahead of the stored rounds, so keep the last checkpoint.
        if simulation is not None and 0 <= simulation.round == self.recorder.round:
            self._checkpoint(simulation)
        return Outcome(status="paused")

    def _store_models(self, simulation: Simulation) -> None:
        """Stores the models of the last and the best round, in one transaction each, the first with the last rounds."""
        best = simulation.best["personalized"].round
        rounds: dict[When, int] = {"last": simulation.round}
        if best >= 0:
            rounds["best"] = best
        for when, round in rounds.items():
            if (file := self._models_file(simulation, when, round)) is not None:
                self.recorder.store_file(file)

    def _models_file(self, simulation: Simulation, when: When, round: int) -> NewArtifact | None:
        """Returns None, and logs why, if the models are too large or the disk is full."""
        models = simulation.models(when)
        size, limit = models.num_bytes, max_models_bytes()
        why = f"{size / MIB:.3g} MiB exceed {MODELS_MB}={limit / MIB:g}"
        if size <= limit:
            try:
                file = saved_models.pack(models)
                return self.store.artifacts.write_file(self.ticket.run_id, MODELS_OF[when], round, file)
            except ArtifactNotWritten as error:
                why = str(error)
        self.recorder.warn("models", f"the models of round {round} were not stored: {why}")
        return None

    def _describe(self, simulation: Simulation) -> None:
        """Stores the provenance: at the start, and again at the end if there are new warnings."""
        partition = None
        if self._described is None:
            partition = simulation.task.data.summary.to_dict()
        elif self._described == simulation.task.notes:
            return
        self._described = [*simulation.task.notes]
        provenance = dataclasses.asdict(simulation.provenance)
        until_available(
            lambda: self.store.queue.describe(
                self.ticket.run_id, self.ticket.epoch, provenance, partition, _worker_name()
            )
        )


def _worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
