"""The choice of the runs on the Live page, which is in the address, and actions on all of them."""

from collections.abc import Collection, Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.charts.plot import palette
from app.components import terms
from app.data import queries
from app.data.comparison import SplitSeed, method_name, run_name, split_seed_of
from app.live import live_feed
from app.live.requests import cancel_question, perform
from app.state import url_state, widgets
from storage import ExperimentRecord, RunRecord


def chosen_runs(experiments: Sequence[ExperimentRecord]) -> list[RunRecord]:
    """The runs in the address (``?runs=1,2`` or ``?experiment=3``), else those training now or trained last."""
    run_ids = url_state.ids("runs")
    if run_ids:
        return queries.runs(run_ids=run_ids, include_archived=True)
    number = url_state.ids("experiment")
    if not number:
        active = [e.id for e in experiments if e.status_counts.get("running") or e.status_counts.get("queued")]
        number = (active or [e.id for e in experiments if not e.example])[:1]
    return queries.runs(experiment_ids=number, include_archived=True) if number else []


def controls(experiments: Sequence[ExperimentRecord], listed: Sequence[RunRecord]) -> list[RunRecord]:
    """The experiment, its runs, and actions on all of them; returns the runs to show."""
    shown = first_of_each(listed)
    if palette.is_presenting():
        return shown
    with st.container(horizontal=True, vertical_alignment="bottom", key="live_controls"):
        experiment_control(experiments, listed[0].experiment_id)
        run_control(listed, shown)
        everything_control(listed)
    if hidden := what_is_hidden(listed, shown):
        terms.caption(hidden)
    return shown


def first_of_each(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Choose as many runs as can be distinguished: the same seeds of every method, the first seeds first."""
    of_seed: dict[SplitSeed, list[RunRecord]] = {}
    for run in sorted(runs, key=lambda run: (run.seed, run.split, run.position)):
        of_seed.setdefault(split_seed_of(run), []).append(run)
    found: list[RunRecord] = []
    for own in of_seed.values():
        if found and len(found) + len(own) > live_feed.MAX_RUNS:
            break
        found += own
    return sorted(found[: live_feed.MAX_RUNS], key=lambda run: (run.experiment_id, run.position))


def what_is_hidden(listed: Sequence[RunRecord], shown: Sequence[RunRecord]) -> str:
    """``Seed 2 is hidden.``; a seed of which some methods are shown has the others' names."""
    drawn = {run.id for run in shown}
    begun = {(_seed(run), _method(run)) for run in shown}
    seeds: dict[str, list[str]] = {}
    for run in sorted(listed, key=lambda run: (run.seed, run.split, run.position)):
        if run.id not in drawn:
            seeds.setdefault(_seed(run), []).append(_method(run))
    if not seeds:
        return ""
    hidden = [_of_seed(seed, of, {method for one, method in begun if one == seed}) for seed, of in seeds.items()]
    is_one = len(hidden) == 1 and hidden[0].startswith(("seed", "1 run"))
    return f"{wording.capital(wording.names(hidden))} {'is' if is_one else 'are'} hidden."


def _of_seed(seed: str, hidden: Sequence[str], drawn: Collection[str]) -> str:
    """What is hidden of a seed whose methods ``drawn`` are shown; methods of one name are only counted."""
    if not drawn:
        return seed
    if set(hidden) & set(drawn):
        return f"{wording.plural(len(hidden), 'run')} of {seed}"
    return f"{seed} of {wording.names(hidden)}"


def _method(run: RunRecord) -> str:
    return method_name(run.label, run.algorithm)


def _seed(run: RunRecord) -> str:
    return f"seed {run.seed} of split {run.split}" if "data_seed" in run.config else f"seed {run.seed}"


def experiment_control(experiments: Sequence[ExperimentRecord], current: int | None) -> None:
    # Numbered: options that read the same are the same to the browser.
    names = {e.id: f"{e.id} · {e.name} · {wording.plural(e.num_runs, 'run')}" for e in experiments}
    if current is not None:
        names.setdefault(current, f"{current} · archived")
    st.selectbox(
        "Experiment",
        list(names),
        None,
        names.__getitem__,
        placeholder="Choose an experiment",
        key=widgets.key("live_experiment", current, _open_experiment, names),
    )


def _open_experiment(experiment: int | None) -> None:
    url_state.choose(runs=None, experiment=None if experiment is None else str(experiment))


def run_control(listed: Sequence[RunRecord], shown: Sequence[RunRecord]) -> None:
    """Up to twelve runs at a time; the others are listed but not drawn."""
    of = sorted({run.experiment_id for run in listed})
    siblings = queries.runs(experiment_ids=of, include_archived=True) if url_state.ids("runs") else []
    names = {run.id: f"{run_name(run)} · run {run.id}" for run in [*siblings, *listed]}
    drawn = [run.id for run in shown]
    of_all = f"{len(shown)} of " if len(shown) < len(names) else ""
    with st.popover(f"{of_all}{wording.plural(len(names), 'run')} shown"):
        st.multiselect(
            "Runs to show",
            list(names),
            drawn,
            names.__getitem__,
            max_selections=live_feed.MAX_RUNS,
            key=widgets.key("live_runs", drawn, _show_runs, names, in_popover=True),
        )


def _show_runs(run_ids: Sequence[int]) -> None:
    url_state.choose(runs=",".join(map(str, sorted(run_ids))) or None)


def everything_control(runs: Sequence[RunRecord]) -> None:
    """Pause, resume or cancel all listed runs of the reader. If nothing trains, ``resume_all`` is below the title."""
    are_active = any(run.is_active for run in runs)
    allowed = permits.theirs("change", runs)
    runs = [run for run in runs if run.id in allowed]
    for action, title in (("pause", "Pause all"), ("resume", "Resume all")):
        ids = [run.id for run in runs if action in live_feed.actions(run)]
        if len(ids) > 1 and are_active:
            st.button(title, key=f"all_{action}", on_click=perform, args=(action, ids))
    to_cancel = [run for run in runs if "cancel" in live_feed.actions(run)]
    if len(to_cancel) > 1:
        training = sum(run.status == "running" for run in to_cancel)
        cancel_question("Cancel all", [run.id for run in to_cancel], training, "all_cancel")


def resume_all(runs: Sequence[RunRecord]) -> None:
    """Resume all paused runs of the reader, the main action where nothing trains. One run has its own button."""
    allowed = permits.theirs("change", runs)
    ids = [run.id for run in runs if run.id in allowed and "resume" in live_feed.actions(run)]
    if len(ids) > 1:
        st.button("Resume all", key="all_resume", type="primary", on_click=perform, args=("resume", ids))
