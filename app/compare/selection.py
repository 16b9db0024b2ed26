"""Which runs a page compares. The address decides: ``?experiment=5`` or ``?runs=1,2,3``."""

from collections.abc import Sequence

import streamlit as st

from app.data import queries
from app.data.comparison import Method, methods_of
from app.state import address, browser
from app.wording import plural
from storage import ExperimentRecord, RunRecord

_METHODS, _EXPERIMENT = "chosen_methods", "chosen_experiment"


def with_rounds(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs with at least one round."""
    return [run for run in runs if run.round >= 0]


def chosen_runs(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs in the address, archived or not, with or without results; else the newest experiment to compare.

    ``runs`` are all visible runs. The result includes partitions.
    """
    named = address.ids("runs")
    if named:
        return queries.runs(run_ids=sorted(named), include_archived=True, with_partition=True)
    experiments = address.ids("experiment")
    return queries.runs(experiment_ids=sorted(experiments), with_partition=True) if experiments else unnamed(runs)


def unnamed(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """What is compared if the address names no runs."""
    return queries.runs(experiment_ids=sorted(newest(with_rounds(runs))), with_partition=True)


def newest(runs: Sequence[RunRecord]) -> set[int]:
    """The newest experiment with two methods that are done, else with two, else all experiments."""
    groups = _by_experiment(runs)
    for counts in (lambda run: run.status == "done", lambda run: True):
        for experiment_id, own in groups.items():
            if len({run.label for run in own if counts(run)}) > 1:
                return {experiment_id}
    return set(groups)


def chooser(runs: Sequence[RunRecord], chosen: Sequence[RunRecord], experiments: Sequence[ExperimentRecord]) -> None:
    """By experiment, or method by method out of all experiments."""
    methods = {method.run_ids: method for own in _by_experiment(runs).values() for method in methods_of(own)}
    names = {e.id: f"{e.name} · {plural(e.num_runs, 'run')}" for e in experiments}
    ids = {run.id for run in chosen}
    whole = [e for e, own in _by_experiment(runs).items() if ids == {run.id for run in own} and e in names]
    browser.show(_EXPERIMENT, whole[0] if whole else None)
    browser.show(_METHODS, [key for key in methods if ids & set(key)])
    st.selectbox(
        "Experiment",
        list(names),
        format_func=names.__getitem__,
        key=_EXPERIMENT,
        on_change=browser.pressed,
        args=(_EXPERIMENT, _go_to_experiment),
        placeholder="All methods of an experiment",
    )
    st.multiselect(
        "Methods (with all seeds)",
        list(methods),
        key=_METHODS,
        on_change=browser.pressed,
        args=(_METHODS, _go_to_methods),
        format_func=lambda key: _title(methods[key]),
        placeholder="At least two",
    )


def _go_to_experiment() -> None:
    if st.session_state[_EXPERIMENT] is None:
        browser.put(runs=None)
    else:
        browser.put(runs=None, experiment=str(st.session_state[_EXPERIMENT]))


def _go_to_methods() -> None:
    chosen = ",".join(str(run_id) for key in st.session_state[_METHODS] for run_id in key)
    browser.put(experiment=None, runs=chosen)


def _title(method: Method) -> str:
    return f"{method.name} · {method.runs[0].experiment_name} · {plural(len(method.runs), 'seed')}"


def _by_experiment(runs: Sequence[RunRecord]) -> dict[int, list[RunRecord]]:
    groups: dict[int, list[RunRecord]] = {}
    for run in sorted(runs, key=lambda run: -run.experiment_id):
        groups.setdefault(run.experiment_id, []).append(run)
    return groups
