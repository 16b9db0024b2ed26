"""The choice of a run by experiment, method and seed. The address has its number."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.charts.plot.palette import is_presenting
from app.data import queries
from app.data.comparison import Method, method_name, methods_of
from app.state import url_state, widgets
from app.wording import STATUS, plural
from storage import RunRecord

EXPERIMENT, METHOD, SEED = "inside_experiment", "inside_method", "inside_seed"
NAMES = ("id", "run")  # of the run in the address; our links use the first


def run_in_address() -> str | None:
    """The run in the address; None if it names none."""
    return next((run for name in NAMES if (run := url_state.get(name)) is not None), None)


def controls(run: RunRecord) -> None:
    """The next and previous seed, and a popover with all other runs."""
    siblings = queries.runs(experiment_ids=[run.experiment_id], include_archived=True)
    own = same_method(run, siblings)
    place = [r.id for r in own].index(run.id)
    if len(own) > 1:
        for step, title in ((-1, "Previous seed"), (1, "Next seed")):
            there = own[place + step] if 0 <= place + step < len(own) else None
            st.button(
                title,
                key=f"inside_{title}",
                disabled=there is None,
                on_click=open_run,
                args=(there.id if there else run.id,),
            )
    if not is_presenting():
        with st.popover("Choose a run", width="content"):
            experiment_control(run)
            method_control(run, siblings)
            seed_control(run, own)


def same_method(run: RunRecord, siblings: Sequence[RunRecord]) -> list[RunRecord]:
    """The run and those that differ from it only in their split and seed, in this order."""
    others = next((m.runs for m in methods_of(siblings) if run.id in m.run_ids), ())
    return list(others) or [run]


def experiment_control(run: RunRecord) -> None:
    names = {e.id: f"{e.id} · {e.name} · {plural(e.num_runs, 'run')}" for e in queries.experiments()}
    names.setdefault(run.experiment_id, f"{run.experiment_id} · {run.experiment_name} · archived")
    st.selectbox(
        "Experiment",
        list(names),
        list(names).index(run.experiment_id),
        names.__getitem__,
        key=widgets.key(EXPERIMENT, run.experiment_id, _open_experiment, names, in_popover=True),
    )


def method_control(run: RunRecord, siblings: Sequence[RunRecord]) -> None:
    methods = methods_of(siblings)
    firsts = {first_with_rounds(method).id: method.name for method in methods}
    own = next((first_with_rounds(m).id for m in methods if run.id in m.run_ids), run.id)
    firsts.setdefault(own, method_name(run.label, run.algorithm))
    _run_control("Method", METHOD, own, firsts)


def seed_control(run: RunRecord, own: Sequence[RunRecord]) -> None:
    titles = {r.id: r.seeds_in_words + ("" if r.status == "done" else f", {STATUS[r.status]}") for r in own}
    _run_control("Seed", SEED, run.id, titles)


def _run_control(label: str, name: str, run_id: int, titles: Mapping[int, str]) -> None:
    st.selectbox(
        label,
        list(titles),
        list(titles).index(run_id),
        titles.__getitem__,
        key=widgets.key(name, run_id, open_run, titles, in_popover=True),
    )


def first_with_rounds(method: Method) -> RunRecord:
    return next((run for run in method.runs if run.round >= 0), method.runs[0])


def open_run(run_id: int) -> None:
    url_state.choose(id=str(run_id), run=None)


def _open_experiment(experiment: int) -> None:
    """Open the experiment's first run; only the tab is kept, since clients and rounds differ."""
    found = queries.runs(experiment_ids=[experiment], include_archived=True)
    run = next((r for r in found if r.round >= 0), next(iter(found), None))
    if run is not None:
        url_state.choose(id=str(run.id), run=None, client=None, round=None)
