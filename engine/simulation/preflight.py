"""Checks before a run: missing data, impossible partitions, methods that do not fit a model."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch

from engine.config import tpe
from engine.config.schema import DIAL_KEYS, ExperimentConfig, RunConfig
from engine.config.tune import Tune
from engine.core.errors import (
    DataUnavailable,
    FedscapeError,
    ImpossiblePartition,
    InvalidConfig,
    Unsupported,
    plugin_line,
    unexpected,
)
from engine.core.paths import default_data_dir
from engine.core.vocabulary import ModelKind
from engine.datasets import Progress
from engine.federation.clients import Federation, build
from engine.models import num_parameters
from engine.simulation.memory import FULL_MEMORY, is_out_of_memory, memory_bytes, needed_bytes, whole_number
from engine.simulation.simulate import Simulation, choose_device

MAX_BYTES = 1 << 30  # of the clients' models; larger ones are not tried in this process
FEW_OF_CLIENT, FEW_IN_ALL = 5, 200  # validation samples
SECTIONS = {DataUnavailable: "dataset", ImpossiblePartition: "partition"}
ON_CPU = {
    "tf32": "training.dtype: tf32 needs an NVIDIA GPU; there is none here, so it is float32",
    "bfloat16": "training.dtype: bfloat16 is meant for an NVIDIA GPU; there is none here, and it is slow on most CPUs",
}


class _TrainingStarts(Exception):
    """Raised at the first local step: a method that trains during its set-up has passed all checks."""


def build_on_cpu(run: RunConfig, progress: Progress | None = None) -> Federation:
    """Loads the data of a run, without caching."""
    return build(run, default_data_dir(), torch.device("cpu"), progress)


def check_runs(
    runs: Iterable[RunConfig],
    progress: Progress | None = None,
    build: Callable[[RunConfig, Progress | None], Federation] = build_on_cpu,
    tune: Tune | None = None,
) -> tuple[str, ...]:
    """Builds the data of every split, and every method with its model, once each. Raises InvalidConfig.

    Returns notes, such as an option that is limited by the data or the model. Methods whose clients' models are too
    large to try are left to the worker. Downloads missing data, so that workers that start together find it. In a study
    (``tune``) only the defaults are checked: a drawn setting that cannot be trained counts as the worst.
    """
    if missing := sampler_problems(tune):
        raise InvalidConfig(missing)
    selected = tune.model if tune else "personalized"
    by_data: dict[str, list[RunConfig]] = {}
    for run in (run for run in runs if run.study is None or run.study.trial == 0):
        by_data.setdefault(f"{run.dataset} {run.partition} {run.training.tensor_dtype} {run.split}", []).append(run)
    problems, notes, checked = dict[str, None](), dict[str, None](), set[str]()
    for group in by_data.values():
        try:
            device = choose_device(group[0].machine.device)
            data = build(_on_cpu(group[0]), progress)
        except FedscapeError as error:
            section = next((name for kind, name in SECTIONS.items() if isinstance(error, kind)), "machine")
            problems[f"{section}: {error}"] = None
        except (MemoryError, OSError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            problems["dataset: out of memory while loading the data; choose fewer or smaller samples"] = None
        else:
            notes.update(dict.fromkeys(data.notes))
            if device.type == "cpu":
                chosen = {run.training.dtype for run in group}
                notes.update(dict.fromkeys(note for dtype, note in ON_CPU.items() if dtype in chosen))
            if group[0].study is not None:
                notes.update(dict.fromkeys(validation_notes(data.summary.val_sizes, group[0].split)))
            for run in group:
                try:
                    notes.update(dict.fromkeys(labeled(run, note) for note in _checked(run, data, checked, selected)))
                except FedscapeError as error:
                    problems[f"{run.label}: {error}"] = None
                except Exception as error:
                    if is_out_of_memory(error) or not plugin_line(error):
                        raise
                    problems[f"{run.label}: unexpected error: {unexpected(error)}"] = None
    if problems:
        raise InvalidConfig(problems)
    return tuple(notes)


def validation_notes(val_sizes: Sequence[int], split: int) -> list[str]:
    """Notes on validation data that are too few to choose settings by."""
    few, found = sum(size < FEW_OF_CLIENT for size in val_sizes), []
    if few:
        have = "1 client has" if few == 1 else f"{few} clients have"
        found.append(
            f"split {split}: {have} fewer than {FEW_OF_CLIENT} validation samples; raise partition.val_fraction"
        )
    if sum(val_sizes) < FEW_IN_ALL:
        found.append(
            f"split {split}: {sum(val_sizes)} validation samples, fewer than {FEW_IN_ALL}: the standard error of a "
            "mean accuracy near 0.9 is above 2 points, so choices are mostly chance; raise partition.val_fraction"
        )
    return found


def sampler_problems(tune: Tune | None) -> list[str]:
    """What must be installed before a study starts; reading a finished one does not need it."""
    return [tpe.MISSING] if tune is not None and tune.sampler == "tpe" and not tpe.is_installed() else []


def study_notes(experiment: ExperimentConfig) -> tuple[str, ...]:
    """Notes on the choices of a study."""
    tune = experiment.tune
    if tune is None:
        return ()
    at = tune.rounds
    shorter = {e.training.rounds: None for e in experiment.algorithms if at and e.training.rounds > at}
    found = [f"settings are chosen at {at} of {rounds} rounds" for rounds in shorter]
    if tune.gradients is not None and "trials" in tune.model_fields_set:
        found.append(f"tune.trials: {tune.trials} is not used, since gradients is the budget; remove one of them")
    return (*found, *([tpe.NOTE] if tune.sampler == "tpe" else []))


def method_notes(run: RunConfig, data: Federation, selected: ModelKind = "personalized") -> tuple[str, ...]:
    """The method's notes about its options on these data; empty if its models are too large to try.

    Raises Unsupported if it does not have the ``selected`` model.
    """
    if max(_largest_bytes(run, data), num_bytes(run, data)) > MAX_BYTES:
        return ()
    notes: list[str] = []
    try:
        trial = Simulation(_on_cpu(run), data=data, tick=_stop, notes=notes)
        if selected == "global" and trial.algorithm.global_model(trial.state, trial.task) is None:
            raise Unsupported("tune.model: 'global', but this method has no global model; use personalized")
    except _TrainingStarts:
        pass
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise Unsupported(FULL_MEMORY) from error
    return tuple(note for note in notes if note not in data.notes)


def labeled(run: RunConfig, note: str) -> str:
    """Prefixes the note with the label, ``Ditto: batch_size=400: ...``, unless it begins with it."""
    return note if note.startswith(run.label) else f"{run.label}: {note}"


def _checked(run: RunConfig, data: Federation, checked: set[str], selected: ModelKind) -> tuple[str, ...]:
    """Sets up a method as at the start of a run, on the CPU, for one split and seed only."""
    dials = [getattr(run, name) for name in DIAL_KEYS]
    what = f"{run.algorithm} {run.model} {run.training} {run.dataset} {run.partition} {dials}"
    if what in checked:
        return ()
    checked.add(what)
    return method_notes(run, data, selected)


def _largest_bytes(run: RunConfig, data: Federation) -> int:
    """The memory of a round, in bytes. Raises Unsupported if it exceeds the machine's."""
    needed, available = needed_bytes(run, data), memory_bytes(choose_device(run.machine.device))
    if sum(needed) > available:
        sizes = f"a round needs at least {sum(needed) / 1e9:,.0f} GB of memory, of {available / 1e9:,.0f} GB available"
        raise Unsupported(f"{sizes}; choose fewer participants, fewer steps, smaller batches or a smaller model")
    return max(needed)


def num_bytes(run: RunConfig, data: Federation) -> int:
    """The memory of a method's models, in bytes. Raises Unsupported if the model cannot take the data."""
    parameters = num_parameters(run.model, data.input_shape, data.num_classes)
    return num_model_values(run, data.num_clients, parameters) * getattr(torch, run.training.tensor_dtype).itemsize


def num_model_values(run: RunConfig, num_clients: int, parameters: int) -> int:
    """The number of values in a method's models: one per client, or per group if there are more, and a hypernetwork."""
    options = run.algorithm.options
    K, hidden, layers = (whole_number(options, name) for name in ("K", "hidden", "hidden_layers"))
    return max(num_clients, K) * parameters + hidden * parameters + layers * hidden**2


def _on_cpu(run: RunConfig) -> RunConfig:
    return replace(run, machine=run.machine.model_copy(update={"device": "cpu"}))


def _stop() -> None:
    raise _TrainingStarts
