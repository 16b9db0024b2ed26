"""The runs that a page compares, from its address: ``?experiment=5`` or ``?runs=1,2,3``."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.data import queries
from app.data.comparison import Method, methods_of
from app.data.own_first import own_or_examples
from app.state import url_state, widgets
from app.wording import plural
from storage import ExperimentRecord, RunRecord

_METHODS, _EXPERIMENT = "chosen_methods", "chosen_experiment"


def with_rounds(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs with at least one round, but those without test accuracies, such as trials of a study."""
    return [run for run in runs if run.round >= 0 and run.is_tested]


def chosen_runs(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs in the address, archived or not, with or without results; else the newest experiment to compare.

    ``runs`` are all visible runs. Of an experiment, archived runs are left out unless all are. The result includes
    partitions.
    """
    if named := url_state.ids("runs"):
        found = queries.runs(run_ids=sorted(named), include_archived=True, with_partition=True)
    elif experiments := url_state.ids("experiment"):
        named_runs = partial(queries.runs, experiment_ids=sorted(experiments), with_partition=True)
        found = named_runs() or named_runs(include_archived=True)
    else:
        found = unnamed(runs)
    return [run for run in found if run.is_tested]


def unnamed(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs to compare if the address names none."""
    return queries.runs(experiment_ids=sorted(newest(with_rounds(runs))), with_partition=True)


def newest(runs: Sequence[RunRecord]) -> set[int]:
    """The newest experiment with two methods that are done, else with two, else all; examples if nothing else."""
    groups = _by_experiment(own_or_examples(runs))
    for counts in (lambda run: run.status == "done", lambda run: True):
        for experiment_id, own in groups.items():
            if len({run.label for run in own if counts(run)}) > 1:
                return {experiment_id}
    return set(groups)


def chooser(runs: Sequence[RunRecord], chosen: Sequence[RunRecord], experiments: Sequence[ExperimentRecord]) -> None:
    """Choose the runs by experiment, or by method out of all experiments."""
    methods = {method.run_ids: method for own in _by_experiment(runs).values() for method in methods_of(own)}
    names = {e.id: f"{e.name} · {plural(e.num_runs, 'run')}" for e in experiments}
    ids = {run.id for run in chosen}
    whole = [e for e, own in _by_experiment(runs).items() if ids == {run.id for run in own} and e in names]
    experiment = whole[0] if whole else None
    st.selectbox(
        "Experiment",
        list(names),
        None if experiment is None else list(names).index(experiment),
        names.__getitem__,
        placeholder="All methods of an experiment",
        key=widgets.key(_EXPERIMENT, experiment, _go_to_experiment, names, in_popover=True),
    )
    titles = {key: _title(method) for key, method in methods.items()}
    drawn = [key for key in methods if ids & set(key)]
    st.multiselect(
        "Methods (with all runs)",
        list(methods),
        drawn,
        titles.__getitem__,
        placeholder="At least two",
        key=widgets.key(_METHODS, drawn, _go_to_methods, titles, in_popover=True),
    )


def _go_to_experiment(experiment: int | None) -> None:
    if experiment is None:
        url_state.choose(runs=None)
    else:
        url_state.choose(runs=None, experiment=str(experiment))


def _go_to_methods(methods: Sequence[tuple[int, ...]]) -> None:
    url_state.choose(experiment=None, runs=",".join(str(run_id) for own in methods for run_id in own) or None)


def _title(method: Method) -> str:
    unit = "seed" if all(split == seed for split, seed in method.draws) else "run"
    return f"{method.name} · {method.runs[0].experiment_name} · {plural(len(method.runs), unit)}"


def _by_experiment(runs: Sequence[RunRecord]) -> dict[int, list[RunRecord]]:
    groups: dict[int, list[RunRecord]] = {}
    for run in sorted(runs, key=lambda run: -run.experiment_id):
        groups.setdefault(run.experiment_id, []).append(run)
    return groups
