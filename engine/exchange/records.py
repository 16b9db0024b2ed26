"""Runs between the engine and storage: a configuration as a row to queue, a stored run as one to export, and back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.config.schema import RunConfig
from engine.core.errors import InvalidConfig
from engine.export.document import Round, RunOutcome, joint_config
from engine.export.reading import check_run
from storage import FinishedRun, NewRun, RoundRecord, RunRecord, Store


def new_run(config: RunConfig) -> NewRun:
    """A run as storage takes it in."""
    return NewRun(
        algorithm=config.algorithm.name,
        label=config.label,
        seed=config.seed,
        hparams=config.hparams,
        config=config.to_dict(),
        rounds=config.training.rounds,
        digest=config.digest,
    )


def check_documents(path: Path, run: RunRecord) -> None:
    """Raises InvalidConfig where the pages that show the run could not read what it says of its origin and clients."""
    try:
        check_run(run.provenance, run.partition)
    except ValueError as error:
        raise InvalidConfig([f"{path}: run {run.id} ({run.label!r:.100} seed {run.seed}): {error}"]) from error


def as_record(result: Round) -> RoundRecord:
    return RoundRecord(result.round, result.cohort, result.scalars, result.arrays, result.clusters, result.evaluated)


def outcome(store: Store, run: RunRecord) -> RunOutcome:
    """What a stored run came to, as exports and tables take it."""
    return RunOutcome(
        run.experiment_name,
        run.algorithm,
        run.label,
        run.hparams,
        run.seed,
        run.status,
        store.metrics.rounds(run.id),
        run.provenance,
        run.partition,
        run.summary,
        run.error,
        run.experiment_id,
    )


def config_of(store: Store, runs: Sequence[RunRecord]) -> dict[str, Any]:
    """The ``config`` of an export of these runs."""
    ids = dict.fromkeys(run.experiment_id for run in runs)
    return joint_config([store.experiments.get(i).config for i in ids])


def finished_run(config: RunConfig, came_to: RunOutcome) -> FinishedRun:
    """A run that was computed elsewhere, as storage takes it in."""
    rounds = [as_record(result) for result in came_to.rounds]
    return FinishedRun(
        new_run(config), came_to.status, rounds, came_to.provenance, came_to.partition, came_to.summary, came_to.error
    )
