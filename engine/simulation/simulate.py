"""The round loop: takes a RunConfig, yields a RoundResult per round. No files, no database, no UI."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.algorithms import Algorithm, SendsUnequally, no_feedback
from engine.backends import Backend, choose_backend
from engine.backends.clipped import Clipped
from engine.backends.counted import Counted
from engine.backends.step_graphs import StepGraphs
from engine.channel.clock import Clock
from engine.channel.dials import ChannelState
from engine.channel.round_channel import RoundChannel
from engine.config.schema import RunConfig, resolve_hparams
from engine.core.client_rows import RowMemory
from engine.core.devices import allow_tf32, keep_freed_batches
from engine.core.errors import CheckpointInvalid, PluginBroken, Unsupported, shown
from engine.core.lockstep import Lockstep
from engine.core.params import SharedParams, all_finite
from engine.core.paths import default_data_dir
from engine.core.registry import ALGORITHMS
from engine.core.results import Provenance, RoundResult
from engine.core.vocabulary import COSTS, DIAGNOSTICS, MODEL_KINDS, UNSEEN, When, add_prefix
from engine.federation.augmentation import require_images
from engine.federation.batches import Cohort
from engine.federation.clients import Federation, build
from engine.metrics import best_round_score, of_benign, summarize_clients
from engine.models import Model, build_model
from engine.models.tokens import require_fitting_tokens
from engine.privacy.samples import ReleaseCounts, Releases
from engine.simulation import checkpoint_codec as states
from engine.simulation import dial_settings, newcomers, option_notes, sample_privacy
from engine.simulation.evaluation import evaluated_clients, score, stored_dtype
from engine.simulation.provenance import provenance_of
from engine.simulation.refusals import refuse
from engine.task import Diagnostics, Predictor, Task


@dataclass
class Best:
    """The best round so far, by ``best_round_score``."""

    round: int = -1
    score: float = -np.inf
    summary: dict[str, float] = field(default_factory=dict)
    state: Any = None


@dataclass(frozen=True)
class OfClients(Sequence[SharedParams]):
    """The model of each client, taken from the predictor when it is asked for."""

    predictor: Predictor
    num_clients: int

    def __len__(self) -> int:
        return self.num_clients

    def __getitem__(self, client: Any) -> Any:
        if isinstance(client, slice):
            return [self[i] for i in range(*client.indices(len(self)))]
        return self.predictor.of_client(range(len(self))[client])


@dataclass(frozen=True)
class Models:
    """The models of a round. ``personalized[i]`` is the state dict of client i's model.

    If a client has K networks (FedEM), its tensors are [K, ...] and ``pi`` [K] has their proportions. ``global_model``
    is a state dict, [N, ...] if each client has its own global model (``is_global_per_client``), None without one.
    """

    initial: SharedParams
    global_model: SharedParams | None
    personalized: Sequence[SharedParams]

    @property
    def is_common(self) -> bool:
        """Whether all clients use the global model, as the same tensors."""
        shared = self.global_model
        return shared is not None and all(p[n] is shared[n] for p in _different(self.personalized) for n in shared)

    @property
    def different(self) -> Sequence[SharedParams]:
        """The personalized models; only one if all clients use the global model."""
        return self.personalized[:1] if self.is_common else self.personalized

    @property
    def num_bytes(self) -> int:
        """The size of the initial and the global model, and of the personalized ones unless they are the global one."""
        parts = [self.initial, self.global_model or {}]
        size = sum(p.nbytes for params in parts for p in params.values())
        if not self.is_common and len(self.personalized):
            size += len(self.personalized) * sum(p.nbytes for p in self.personalized[0].values())
        return size

    @property
    def is_global_per_client(self) -> bool:
        """Whether each client has its own global model, [N, ...]."""
        name, initial = next(iter(self.initial.items()))
        shared = self.global_model or {}
        return name in shared and shared[name].dim() > initial.dim()


def choose_device(name: str) -> torch.device:
    """Resolves ``auto``. Raises Unsupported if ``cuda`` is requested but unavailable."""
    if name == "cuda" and not torch.cuda.is_available():
        raise Unsupported("device: 'cuda', but this machine has no usable GPU; use device: cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


class Simulation:
    """One run, round by round. ``rounds()`` may be stopped at any time and continued from a ``checkpoint()``.

    The constructor loads and partitions the data and sets up the method; it raises DataUnavailable, ImpossiblePartition
    or Unsupported. ``tick`` is called in every local step and may raise to stop the run. ``notes`` collects remarks for
    the reader of the results, also if the constructor raises.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        data_dir: Path | None = None,
        tick: Callable[[], None] = lambda: None,
        progress: Callable[[str, float], None] | None = None,
        data: Federation | None = None,
        notes: list[str] | None = None,
        lockstep: Lockstep | None = None,
    ) -> None:
        self.config = config
        device = choose_device(config.machine.device)
        if device.type == "cuda":
            allow_tf32(config.training.dtype == "tf32")
        else:
            keep_freed_batches()
        refuse(config)
        data = data or build(config, data_dir or default_data_dir(), device, progress)
        data = dial_settings.attacked(config, data)
        model = _model(config, data)
        notes = [] if notes is None else notes
        notes += data.notes
        _require_validation(config, data)
        systems = dial_settings.systems(config, data)
        self.dials = dial_settings.dials(config, data, device, systems)
        self.task = Task(
            data,
            model,
            config.training,
            _backend(config, model, device),
            config.seed,
            device,
            getattr(torch, config.training.tensor_dtype),
            tick,
            notes,
            is_poisson=self.dials is not None and self.dials.is_poisson,
            systems=systems,
            graphs=StepGraphs.on(device) if config.machine.cuda_graphs else None,
            lockstep=lockstep,
        )
        for note in option_notes.notes(config, model, data):
            self.task.note(note)
        self.algorithm = _method(self.task, config)
        self.state: Any = self.algorithm.init(self.task)
        self.channel_state = ChannelState()
        shared, reason = self.algorithm.shared(self.state), no_feedback(self.algorithm)
        for note in dial_settings.notes(config, data, shared, self._bytes_down(), self.dials, reason):
            self.task.note(note)
        self.samples = sample_privacy.mechanism(config, self.algorithm, shared, self.task)
        self.release_counts = ReleaseCounts.zero(self.task.num_clients)
        self.evaluated = _sample(config, self.task)
        self._parts = states.Parts()
        self.round = -1  # the last yielded round
        self.last: dict[str, dict[str, float]] = {}
        self.best = {model: Best() for model in MODEL_KINDS}

    def rounds(self) -> Iterator[RoundResult]:
        """Yields the rounds after the last one yielded, from 0 (untrained) to ``training.rounds`` or divergence."""
        if self.round < 0:
            if self.evaluated is not None:
                measured, N = len(self.evaluated), self.task.num_clients
                self.task.note(f"{measured:,} of {N:,} clients, drawn once at random, are evaluated")
            yield self._finish(0, None, None, 0.0)
        while self.round < self.config.training.rounds:
            task, releases = self.prepare(self.round + 1)
            cohort = task.cohort(self.round + 1)
            started = time.perf_counter()
            state, diagnostics = self.train(cohort, task)
            if self.task.device.type == "cuda":
                torch.cuda.synchronize(self.task.device)
            seconds = time.perf_counter() - started
            self.state = state
            if releases is not None and self.samples is not None:
                self.release_counts = releases.after(self.release_counts)
                diagnostics.values.update(releases.values(self.samples.clip))
            result = self._finish(cohort.round, diagnostics.cohort or cohort, diagnostics, seconds)
            yield result
            if result.diverged:
                return

    def prepare(self, round: int) -> tuple[Task, Releases | None]:
        """Sets the learning rates of a round. Returns its task, and its ``Releases`` if samples are private."""
        self.task, self.algorithm = self._with_round_rates(round)
        level = self.samples
        if level is None or not sample_privacy.is_needed(level, self.algorithm.shared(self.state)):
            return self.task, None
        releases = level.open(round)
        return sample_privacy.protected(self.task, level, releases), releases

    def train(self, cohort: Cohort, task: Task) -> tuple[Any, Diagnostics]:
        """Computes a round and returns the new state. With a dial on, uploads pass a ``RoundChannel``.

        ``self.state`` is not changed.
        """
        if self.dials is None:
            return self._round(cohort, task)
        clock = self._clock(cohort)
        if clock is not None:
            unprotected = task.unprotected_backend and Counted(task.unprotected_backend, clock.count)
            counted = Counted(task.backend, clock.count)
            task = dataclasses.replace(task, backend=counted, unprotected_backend=unprotected)
        is_empty_draw = task.is_poisson and task.is_empty_draw(cohort.round)
        channel = RoundChannel(
            self.dials,
            self.channel_state,
            cohort.round,
            task.memory,
            clock=clock,
            is_empty_draw=is_empty_draw,
            has_feedback=not no_feedback(self.algorithm),
        )
        state, found = self._round(cohort, dataclasses.replace(task, channel=channel))
        trained = found.cohort or cohort
        if clock is not None:
            clock.finish(found.gradient_evaluations)
        self.channel_state = channel.close(trained)
        values = {**found.values, **channel.values()}
        if clock is not None:
            values |= {"simulated_s": self.channel_state.simulated_s, **clock.values(trained)}
        return state, dataclasses.replace(found, values=values, bytes_up=channel.bytes_up)

    def _round(self, cohort: Cohort, task: Task) -> tuple[Any, Diagnostics]:
        match self.algorithm.round(self.state, cohort, task):
            case (state, Diagnostics() as found):
                return state, found
            case other:
                name = self.config.algorithm.name
                raise PluginBroken(f"{name}: round must return the state and Diagnostics, not {shown(other)}")

    def _clock(self, sampled: Cohort) -> Clock | None:
        if self.task.systems is None:
            return None
        participation = self.task.training.participation
        return Clock(self.task.systems, sampled.round, participation, sampled.size, self._bytes_down())

    def _bytes_down(self) -> np.ndarray:
        """[N] what each client would receive in the next round."""
        if isinstance(self.algorithm, SendsUnequally):
            return self.algorithm.bytes_down(self.state).cpu().numpy()
        return np.full(self.task.num_clients, self.algorithm.shared(self.state).bytes_down)

    def summary(self) -> dict[str, Any]:
        """The ``summary`` of the export: of the last round and of the best ones."""
        best = {k: {"round": b.round, **b.summary} if b.round >= 0 else None for k, b in self.best.items()}
        last: dict[str, Any] = {model: self.last.get(model) for model in MODEL_KINDS}
        return {**last, "best": best, **{k: v for k, v in self.last.items() if k == UNSEEN}}

    @property
    def provenance(self) -> Provenance:
        return provenance_of(self.task)

    def checkpoint(self, write: states.Write | None = None) -> bytes:
        """The state after the last yielded round, from which a run can continue.

        ``write`` stores the new rows of large per-client state as ``parts``; without it they are part of the result.
        """
        best = {
            k: {**dataclasses.asdict(dataclasses.replace(b, state=None)), "state": b.state}
            for k, b in self.best.items()
        }
        best_of = {k: {n: v for n, v in b.items() if n != "score" or np.isfinite(v)} for k, b in best.items()}
        whole = {
            "digest": self.config.digest,
            "round": self.round,
            "state": self.state,
            "last": self.last,
            "best": best_of,
            "notes": list(self.task.notes),
        }
        if self.dials is not None:
            whole["channel"] = self.channel_state.to_dict()
        if self.samples is not None:
            whole["spent"] = self.release_counts.to_dict()
        return states.to_bytes(whole, self._parts, write)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that the last checkpoint, written or restored, consists of."""
        return tuple(self._parts.names)

    def restore(self, data: bytes, read: states.Read | None = None) -> None:
        """Restores a checkpoint of the same configuration. Raises CheckpointInvalid, and changes nothing then."""
        memory = RowMemory()
        whole, parts = states.from_bytes(data, type(self.algorithm).__module__, self.task.device, memory, read)
        try:
            if whole["digest"] != self.config.digest:
                raise CheckpointInvalid("the checkpoint is of another configuration; rerun the run")
            round, state, last, notes = (whole[name] for name in ("round", "state", "last", "notes"))
            best = {model: Best(**whole["best"][model]) for model in MODEL_KINDS}
            channel_state = ChannelState() if self.dials is None else ChannelState(**whole["channel"])
            release_counts = self.release_counts if self.samples is None else ReleaseCounts.from_dict(whole["spent"])
        except (KeyError, TypeError) as error:
            message = f"the checkpoint was written by another version ({error!r} does not fit); rerun the run"
            raise CheckpointInvalid(message) from error
        self.round, self.state, self.last, self.best, self._parts = round, state, last, best, parts
        self.channel_state, self.release_counts = channel_state, release_counts
        self.task = dataclasses.replace(self.task, memory=memory)
        self.task, self.algorithm = self._with_round_rates(round)
        for note in notes:
            self.task.note(note)

    def models(self, when: When = "last") -> Models:
        """The models of the ``last`` or the ``best`` round (best by personalized accuracy)."""
        best = self.best["personalized"]  # its round is -1 if no client has test samples
        state = self.state if when == "last" or best.round < 0 else best.state
        task, algorithm = self._for_final_models()
        personalized, shared = algorithm.personalized(state, task), algorithm.global_model(state, task)
        clients = OfClients(personalized, task.num_clients)
        return Models(task.initial_model(), shared.params if shared else None, clients)

    def _for_final_models(self) -> tuple[Task, Algorithm]:
        """The task and method for tuning final models, at the initial learning rate: schedules apply to rounds only."""
        return self._with_round_rates(0)

    def _with_round_rates(self, round: int) -> tuple[Task, Algorithm]:
        """The task and method with the learning rates of a round."""
        training = self.config.training.in_round(round)
        if training == self.task.training:
            return self.task, self.algorithm
        task = dataclasses.replace(self.task, training=training)
        return task, _method(task, self.config)

    def _finish(
        self, round: int, cohort: Cohort | None, diagnostics: Diagnostics | None, seconds: float
    ) -> RoundResult:
        """Evaluates the state after this round and returns its result."""
        self.round = round
        scalars, arrays = self._record_round(cohort, diagnostics, seconds)
        diverged = None if diagnostics is None else self._training_failed(diagnostics.train_loss, cohort)
        last = round == self.config.training.rounds or diverged is not None
        evaluated = last or round % self.config.evaluation.every == 0
        if evaluated:
            values = self._evaluate()
            arrays |= values | self._guarantee_of_clients()
            diverged = diverged or self._evaluation_failed(values)
            scalars |= self._summarize(values, may_be_best=diverged is None) | self._guarantee()
        if round == self.config.training.rounds and diverged is None and self.config.evaluation.on == "both":
            unseen_arrays, unseen_scalars = self._measure_unseen()
            arrays, scalars = arrays | unseen_arrays, scalars | unseen_scalars
        clusters = diagnostics.clusters if diagnostics else None
        participants = np.zeros(0, np.int32) if cohort is None else np.sort(np.array(cohort.client_ids, np.int32))
        return RoundResult(
            round,
            participants,
            scalars,
            arrays,
            clusters=None if clusters is None else clusters.cpu().numpy().astype(np.int16),
            evaluated=evaluated,
            diverged=diverged,
        )

    def _record_round(
        self, cohort: Cohort | None, diagnostics: Diagnostics | None, seconds: float
    ) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Costs, training losses and diagnostics of a round; round 0 has no costs."""
        scalars = dict.fromkeys(COSTS, 0.0) | {"seconds": seconds}
        if cohort is None or diagnostics is None:
            return self._devices(scalars)
        shared = self.algorithm.shared(self.state)
        up = cohort.size * shared.bytes_up if diagnostics.bytes_up is None else diagnostics.bytes_up
        down = cohort.size * shared.bytes_down if diagnostics.bytes_down is None else diagnostics.bytes_down
        scalars["bytes_up"] = float(up + diagnostics.extra_bytes_up)
        scalars["bytes_down"] = float(down + diagnostics.extra_bytes_down)
        scalars["gradient_evaluations"] = float(diagnostics.gradient_evaluations)
        loss = np.full(self.task.num_clients, np.nan, stored_dtype(self.task))
        loss[list(cohort.client_ids)] = diagnostics.train_loss.cpu().numpy()
        arrays = {"train_loss": loss}
        for name, value in diagnostics.values.items():
            if isinstance(value, Tensor) and value.dim():
                arrays[f"{DIAGNOSTICS}.{name}"] = value.cpu().numpy()
            else:
                scalars[f"{DIAGNOSTICS}.{name}"] = float(value)
        return scalars, arrays

    def _devices(self, scalars: dict[str, float]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """The values of round 0, with the speeds of the simulated devices."""
        systems = self.task.systems
        if systems is None:
            return scalars, {}
        devices = add_prefix(DIAGNOSTICS, {"speed": systems.speed, "link": systems.link})
        return scalars | {f"{DIAGNOSTICS}.simulated_s": 0.0}, devices

    def _guarantee(self) -> dict[str, float]:
        """Epsilon so far, where clients are private."""
        if self.dials is None or self.dials.privacy is None:
            return {}
        return {f"{DIAGNOSTICS}.privacy.epsilon": self.dials.privacy.epsilon(self.channel_state.releases)}

    def _guarantee_of_clients(self) -> dict[str, np.ndarray]:
        """Each client's epsilon so far, where samples are private."""
        if self.samples is None:
            return {}
        epsilon = self.samples.epsilon(self.release_counts)
        return {f"{DIAGNOSTICS}.privacy.epsilon": epsilon.astype(stored_dtype(self.task))}

    def _evaluate(self) -> dict[str, np.ndarray]:
        """Arrays of the current models of all clients that are evaluated; NaN for the others."""
        task, algorithm = self._for_final_models()
        task = dataclasses.replace(task, evaluated=self.evaluated)
        return score(algorithm, self.state, task, self.config.evaluation.on)

    def _measure_unseen(self) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Arrays and scalars of clients that never took part; empty if none are held out."""
        task, algorithm = self._for_final_models()
        scores = newcomers.scores(algorithm, self.state, task)
        if not scores:
            return {}, {}
        arrays = {n: v.astype(stored_dtype(self.task)) for n, v in scores.items()}
        self.last[UNSEEN] = summary = newcomers.summary(arrays["accuracy"], self.task)
        return add_prefix(UNSEEN, arrays), add_prefix(UNSEEN, summary)

    def _summarize(self, values: dict[str, np.ndarray], may_be_best: bool) -> dict[str, float]:
        """Client summaries of test accuracies as scalars; remembers the last and the best ones."""
        scalars: dict[str, float] = {}
        data = self.task.data
        for model, best in self.best.items():
            summary = {}
            if f"{model}.accuracy" in values:
                summary = summarize_clients(of_benign(values[f"{model}.accuracy"], data.malicious), data.test_sizes)
                self.last[model] = summary
                scalars |= add_prefix(model, summary)
            reached = best_round_score(model, scalars, values, data.val_sizes, data.malicious)
            if may_be_best and np.isfinite(reached) and reached > best.score:
                self.best[model] = Best(self.round, reached, summary, self.state if model == "personalized" else None)
        return scalars

    def _training_failed(self, train_loss: Tensor, cohort: Cohort | None) -> str | None:
        """Why training has to stop, if it has to: a participant's loss or a shared model is not finite."""
        shared = self.algorithm.shared(self.state)
        sent = (p for params in (*shared.down, *shared.up) for p in params.values())
        models = list({id(p): p for p in sent}.values())  # most models are sent both ways
        if all_finite([train_loss, *models]):
            return None
        bad = torch.nonzero(~train_loss.isfinite())
        if len(bad) and cohort is not None:
            return f"the training loss of client {cohort.client_ids[int(bad[0, 0])]} is not finite"
        return None if all_finite(models) else "the server's model is not finite"

    def _evaluation_failed(self, values: dict[str, np.ndarray]) -> str | None:
        is_validation = self.config.evaluation.on == "val"
        is_measured = (self.task.data.val_sizes if is_validation else self.task.data.test_sizes) > 0
        name, words = ("val_loss", "validation loss") if is_validation else ("loss", "test loss")
        if self.evaluated is not None:
            is_evaluated = np.zeros(len(is_measured), bool)
            is_evaluated[self.evaluated.cpu().numpy()] = True
            is_measured &= is_evaluated
        for model in MODEL_KINDS:
            bad = np.flatnonzero(~np.isfinite(values.get(f"{model}.{name}", np.zeros(len(is_measured)))) & is_measured)
            if len(bad):
                return f"the {words} of client {bad[0]}'s {model} model is not finite"
        return None


def _different(models: Sequence[SharedParams]) -> Sequence[SharedParams]:
    """One model if all clients share its tensors, else all."""
    return models[:1] if isinstance(models, OfClients) and not models.predictor.is_per_client else models


def simulate(config: RunConfig, data_dir: Path | None = None) -> Iterator[RoundResult]:
    """Runs all rounds of a configuration."""
    yield from Simulation(config, data_dir=data_dir).rounds()


def _sample(config: RunConfig, task: Task) -> Tensor | None:
    """The clients that ``evaluation.clients`` evaluates: the same for every method and round. None: all."""
    drawn = evaluated_clients(config.evaluation.clients, config.split, task.num_clients)
    return torch.from_numpy(drawn).to(task.device) if len(drawn) < task.num_clients else None


def _model(config: RunConfig, data: Federation) -> Model:
    """The model for the data. Raises Unsupported if it cannot read them, or they cannot be augmented."""
    model = build_model(config.model, data.input_shape, data.num_classes)
    require_fitting_tokens(model, data.train.pool.x, getattr(config.dataset.options, "buckets", None))
    require_images(config.training.augmentation, data.input_shape)
    return dataclasses.replace(model, rounded_to=torch.bfloat16) if config.training.dtype == "bfloat16" else model


def _backend(config: RunConfig, model: Model, device: torch.device) -> Backend:
    backend = choose_backend(config.machine.backend, model, device)
    return backend if config.training.clip_norm is None else Clipped(backend, config.training.clip_norm)


def _require_validation(config: RunConfig, data: Federation) -> None:
    if config.evaluation.on == "val" and not data.val.num_samples:
        advice = "set partition.val_fraction, for instance 0.2"
        raise Unsupported(f"evaluation.on: 'val', but there is no validation data; {advice}")


def _method(task: Task, config: RunConfig) -> Algorithm:
    """The method of a run, with its ``"training"`` values taken from the task."""
    hparams = resolve_hparams(config.algorithm.options, task.training)
    method: Algorithm = ALGORITHMS.get(config.algorithm.name).make(hparams)
    return method
