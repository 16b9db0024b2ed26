"""Labels of the methods of runs; equal methods of different experiments have different labels."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from app.data.comparison import method_name
from storage import RunRecord

MAX_LETTERS = 16  # of an experiment's name


def labels(runs: Sequence[RunRecord]) -> dict[int, str]:
    """The method of each run, by the run's id; followed by its experiment if others have the same method.

    ``FedAvg · digits alpha 0.1``, or ``FedAvg · experiment 3`` if the names of the experiments look alike.
    """
    experiments: dict[str, dict[int, str]] = defaultdict(dict)
    for run in runs:
        experiments[_name(run)][run.experiment_id] = _shortened(run.experiment_name)
    return {run.id: _label(run, experiments[_name(run)]) for run in runs}


def run_names(runs: Sequence[RunRecord]) -> dict[int, str]:
    """The label and seed of each run: ``FedAvg, seed 0``."""
    label = labels(runs)
    return {run.id: f"{label[run.id]}, {run.seeds_in_words}" for run in runs}


def _label(run: RunRecord, experiments: dict[int, str]) -> str:
    """``experiments`` are all that have the method, with their names."""
    if len(experiments) == 1:
        return _name(run)
    experiment = experiments[run.experiment_id]
    is_distinct = Counter(experiments.values())[experiment] == 1
    return f"{_name(run)} · {experiment if is_distinct else f'experiment {run.experiment_id}'}"


def _name(run: RunRecord) -> str:
    return method_name(run.label, run.algorithm)


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_LETTERS else f"{name[: MAX_LETTERS - 1]}…"
