"""What can be refused before anything runs: absent data, impossible partitions, methods that don't fit a model."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from engine.config import RunConfig
from engine.datasets import Progress
from engine.errors import DataUnavailable, FedscapeError, ImpossiblePartition, InvalidConfig, Unsupported
from engine.federation import Federation, build
from engine.memory import FULL_MEMORY, is_out_of_memory, memory_bytes, needed_bytes
from engine.models import num_parameters
from engine.simulate import Simulation, choose_device, default_data_dir

MOST_BYTES = 1 << 30  # of one model for each client: more is not set up beside whatever else this process does
SECTIONS = {DataUnavailable: "dataset", ImpossiblePartition: "partition"}


class _TrainingBegins(Exception):
    """A method that already trains while it sets up has passed every check."""


def check_runs(runs: Iterable[RunConfig], data_dir: Path | None = None, progress: Progress | None = None) -> None:
    """Build the data of every seed, and every method with its model, once each. Raises InvalidConfig.

    Methods whose clients' models are too large to try are left to the worker. Downloads what is absent, so that
    workers that start at the same time find it.
    """
    by_data: dict[str, list[RunConfig]] = {}
    for run in runs:
        by_data.setdefault(f"{run.dataset} {run.partition} {run.training.dtype} {run.seed}", []).append(run)
    problems, checked = dict[str, None](), set[str]()
    for group in by_data.values():
        try:
            choose_device(group[0].machine.device)
            data = build(group[0], data_dir or default_data_dir(), torch.device("cpu"), progress)
        except FedscapeError as error:
            problems[f"{SECTIONS.get(type(error), 'machine')}: {error}"] = None
        except (MemoryError, OSError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            problems["dataset: this machine has no memory left for the data; choose less of it, or smaller data"] = None
        else:
            problems.update(dict.fromkeys(_method_problems(group, data, checked)))
    if problems:
        raise InvalidConfig(problems)


def _method_problems(runs: list[RunConfig], data: Federation, checked: set[str]) -> Iterator[str]:
    """Sets up each method as it would start, on the CPU; one seed stands for all."""
    for run in runs:
        what = f"{run.algorithm} {run.model} {run.training} {run.dataset} {run.partition}"
        if what not in checked:
            checked.add(what)
            try:
                if max(_largest_bytes(run, data), _num_bytes(run, data)) > MOST_BYTES:
                    continue
                Simulation(_on_cpu(run), data=data, tick=_stop)
            except _TrainingBegins:
                continue
            except FedscapeError as error:
                yield f"{run.label}: {error}"
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                yield f"{run.label}: {FULL_MEMORY}"


def _largest_bytes(run: RunConfig, data: Federation) -> int:
    """Of the models or the batches of a round. Raises Unsupported where they need more memory than there is."""
    needed, there = needed_bytes(run, data), memory_bytes(choose_device(run.machine.device))
    if sum(needed) > there:
        sizes = f"a round needs at least {sum(needed) / 1e9:,.0f} GB of memory, and there are {there / 1e9:,.0f} GB"
        raise Unsupported(f"{sizes}; choose fewer participants, fewer steps, smaller batches or a smaller model")
    return max(needed)


def _num_bytes(run: RunConfig, data: Federation) -> int:
    """Of one model for each client. Raises Unsupported where the model cannot take the data."""
    parameters = num_parameters(run.model, data.input_shape, data.num_classes)
    return parameters * data.num_clients * getattr(torch, run.training.dtype).itemsize


def _on_cpu(run: RunConfig) -> RunConfig:
    return replace(run, machine=run.machine.model_copy(update={"device": "cpu"}))


def _stop() -> None:
    raise _TrainingBegins
