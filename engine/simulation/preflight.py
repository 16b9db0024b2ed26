"""What can be refused before anything runs: absent data, impossible partitions, methods that don't fit a model."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch

from engine.config.schema import RunConfig
from engine.core.errors import DataUnavailable, FedscapeError, ImpossiblePartition, InvalidConfig, Unsupported
from engine.core.paths import default_data_dir
from engine.datasets import Progress
from engine.federation.clients import Federation, build
from engine.models import num_parameters
from engine.simulation.memory import FULL_MEMORY, is_out_of_memory, memory_bytes, needed_bytes
from engine.simulation.simulate import Simulation, choose_device

MOST_BYTES = 1 << 30  # of one model for each client: more is not set up beside whatever else this process does
SECTIONS = {DataUnavailable: "dataset", ImpossiblePartition: "partition"}


class _TrainingBegins(Exception):
    """A method that already trains while it sets up has passed every check."""


def build_on_cpu(run: RunConfig, progress: Progress | None = None) -> Federation:
    """The data of a run, read anew."""
    return build(run, default_data_dir(), torch.device("cpu"), progress)


def check_runs(
    runs: Iterable[RunConfig],
    progress: Progress | None = None,
    build: Callable[[RunConfig, Progress | None], Federation] = build_on_cpu,
) -> tuple[str, ...]:
    """Build the data of every seed, and every method with its model, once each. Raises InvalidConfig.

    Returns what will not be as it was asked for, such as an option that is cut to what the data or the model allow.
    Methods whose clients' models are too large to try are left to the worker. Downloads what is absent, so that
    workers that start at the same time find it.
    """
    by_data: dict[str, list[RunConfig]] = {}
    for run in runs:
        by_data.setdefault(f"{run.dataset} {run.partition} {run.training.dtype} {run.seed}", []).append(run)
    problems, notes, checked = dict[str, None](), dict[str, None](), set[str]()
    for group in by_data.values():
        try:
            choose_device(group[0].machine.device)
            data = build(_on_cpu(group[0]), progress)
        except FedscapeError as error:
            section = next((name for kind, name in SECTIONS.items() if isinstance(error, kind)), "machine")
            problems[f"{section}: {error}"] = None
        except (MemoryError, OSError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            problems["dataset: this machine has no memory left for the data; choose less of it, or smaller data"] = None
        else:
            notes.update(dict.fromkeys(data.notes))
            for run in group:
                try:
                    notes.update(dict.fromkeys(labelled(run, note) for note in _checked(run, data, checked)))
                except FedscapeError as error:
                    problems[f"{run.label}: {error}"] = None
    if problems:
        raise InvalidConfig(problems)
    return tuple(notes)


def method_notes(run: RunConfig, data: Federation) -> tuple[str, ...]:
    """What the method notes about its options on these data; none where its models are too large to try."""
    if max(_largest_bytes(run, data), num_bytes(run, data)) > MOST_BYTES:
        return ()
    notes: list[str] = []
    try:
        Simulation(_on_cpu(run), data=data, tick=_stop, notes=notes)
    except _TrainingBegins:
        pass
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise Unsupported(FULL_MEMORY) from error
    return tuple(note for note in notes if note not in data.notes)


def labelled(run: RunConfig, note: str) -> str:
    """``Ditto: batch_size=400: ...``; many notes begin with the method already."""
    return note if note.startswith(run.label) else f"{run.label}: {note}"


def _checked(run: RunConfig, data: Federation, checked: set[str]) -> tuple[str, ...]:
    """Sets up a method as it would start, on the CPU; one seed stands for all."""
    what = f"{run.algorithm} {run.model} {run.training} {run.dataset} {run.partition}"
    if what in checked:
        return ()
    checked.add(what)
    return method_notes(run, data)


def _largest_bytes(run: RunConfig, data: Federation) -> int:
    """Of the models or the batches of a round. Raises Unsupported where they need more memory than there is."""
    needed, there = needed_bytes(run, data), memory_bytes(choose_device(run.machine.device))
    if sum(needed) > there:
        sizes = f"a round needs at least {sum(needed) / 1e9:,.0f} GB of memory, and there are {there / 1e9:,.0f} GB"
        raise Unsupported(f"{sizes}; choose fewer participants, fewer steps, smaller batches or a smaller model")
    return max(needed)


def num_bytes(run: RunConfig, data: Federation) -> int:
    """Of a method's models. Raises Unsupported where the model cannot take the data."""
    parameters = num_parameters(run.model, data.input_shape, data.num_classes)
    return num_numbers(run, data.num_clients, parameters) * getattr(torch, run.training.dtype).itemsize


def num_numbers(run: RunConfig, num_clients: int, parameters: int) -> int:
    """A model for each client, or each of K groups where these are more; and the layers of a hypernetwork."""
    options = run.algorithm.options
    K, hidden, layers = (int(getattr(options, name, 0)) for name in ("K", "hidden", "hidden_layers"))
    return max(num_clients, K) * parameters + hidden * parameters + layers * hidden**2


def _on_cpu(run: RunConfig) -> RunConfig:
    return replace(run, machine=run.machine.model_copy(update={"device": "cpu"}))


def _stop() -> None:
    raise _TrainingBegins
