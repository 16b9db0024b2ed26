"""Live: what is training now, how it goes, and what one can do about it."""

from collections.abc import Sequence
from typing import Any, cast

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import address, links, live_feed, palette, queries, routes, wording
from app.charts import latest_clients, training_curve
from app.comparison import method_name
from app.components import live_plot, page
from storage import ExperimentRecord, RunRecord

KEY = "live"
REDRAW_S = 2.0
AXES = {"round": "Rounds", "megabytes": "Megabytes", "seconds": "Seconds"}
SMALL = ("loss", "spread", "cost")


def render() -> None:
    page.require_store()
    experiments = queries.experiments()
    listed = chosen_runs(experiments)
    if not listed:
        nothing_yet()
        return
    headline(listed)
    shown = controls(experiments, listed)
    model, x = axis_controls(shown)
    if routes.are_served:
        grow(shown, model, x)
    else:
        redraw(shown, model, x)
    how_many(shown)
    for run in shown:
        if run.status in ("failed", "diverged"):
            what_happened(run)


def chosen_runs(experiments: Sequence[ExperimentRecord]) -> list[RunRecord]:
    """Those of the address (``?runs=1,2`` or ``?experiment=3``), else of what is training or trained last."""
    wanted = page.ids_in_address("runs")
    if wanted:
        return queries.runs(run_ids=wanted, include_archived=True)
    number = page.ids_in_address("experiment")
    if not number:
        active = [e.id for e in experiments if e.status_counts.get("running") or e.status_counts.get("queued")]
        number = (active or [e.id for e in experiments if not e.example])[:1]
    return queries.runs(experiment_ids=number, include_archived=True) if number else []


def nothing_yet() -> None:
    page.header("Live", "What is training now?", "Nothing: no experiment has been started yet.")
    page.link("setup", "Set up an experiment")


def headline(runs: Sequence[RunRecord]) -> None:
    counts = {status: sum(live_feed.status_of(run) == status for run in runs) for status in wording.STATUS}
    said = ", ".join(f"{n} {wording.STATUS[status]}" for status, n in counts.items() if n)
    name = wording.names(run.experiment_name for run in runs)
    if any(run.is_active for run in runs):
        page.header(wording.kicker(runs), "What is training now?", f"{name}: {said}.")
    else:
        page.header(wording.kicker(runs), "How did it go?", f"Nothing of {name} is training: {said}.")
        with st.container(horizontal=True, key="live_next"):
            page.link("compare", "Compare these runs", runs=",".join(str(run.id) for run in runs))
            page.link("setup", "Set up another experiment")


def controls(experiments: Sequence[ExperimentRecord], listed: Sequence[RunRecord]) -> list[RunRecord]:
    """Which experiment, which of its runs, and what to do with all of them; answers the runs to show."""
    shown = first_of_each(listed)
    if palette.is_presenting():
        return shown
    with st.container(horizontal=True, vertical_alignment="bottom", key="live_controls"):
        experiment_control(experiments, listed[0].experiment_id)
        run_control(listed, shown)
        everything_control(listed)
    return shown


def first_of_each(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """As many runs as can be told apart: the first seed of every method, then the second."""
    by_seed = sorted(runs, key=lambda run: (run.seed, run.position))[: live_feed.MAX_RUNS]
    return sorted(by_seed, key=lambda run: (run.experiment_id, run.position))


def experiment_control(experiments: Sequence[ExperimentRecord], current: int) -> None:
    # Numbered: options that read the same are the same to the browser.
    names = {e.id: f"{e.id} · {e.name} · {wording.plural(e.num_runs, 'run')}" for e in experiments}
    names.setdefault(current, f"{current} · archived")

    def open_experiment() -> None:
        st.query_params.pop("runs", None)
        st.query_params["experiment"] = str(st.session_state["live_experiment"])

    ids = list(names)
    st.session_state["live_experiment"] = current
    st.selectbox("Experiment", ids, format_func=names.__getitem__, key="live_experiment", on_change=open_experiment)


def run_control(listed: Sequence[RunRecord], shown: Sequence[RunRecord]) -> None:
    """Up to twelve runs at a time; the rest is named, not drawn."""
    siblings = queries.runs(experiment_ids=sorted({run.experiment_id for run in listed}), include_archived=True)
    names = {run.id: f"{named(run)} · run {run.id}" for run in [*siblings, *listed]}

    def show_runs() -> None:
        st.query_params["runs"] = ",".join(map(str, sorted(st.session_state["live_runs"])))

    st.session_state["live_runs"] = [run.id for run in shown]
    left = len(names) - len(shown)
    with st.popover(f"{wording.plural(len(shown), 'run')} shown" + (f", {left} more" if left else "")):
        st.multiselect(
            "Runs to show", list(names), format_func=names.__getitem__, key="live_runs", on_change=show_runs,
            max_selections=live_feed.MAX_RUNS,
        )  # fmt: skip


def everything_control(runs: Sequence[RunRecord]) -> None:
    """Pause, resume or cancel all that are listed."""
    offers = {"pause": "Pause all", "resume": "Resume all", "cancel": "Cancel all"}
    for action, title in offers.items():
        ids = [run.id for run in runs if action in live_feed.actions(run)]
        if len(ids) > 1:
            st.button(title, key=f"all_{action}", on_click=perform, args=(action, ids))


def axis_controls(runs: Sequence[RunRecord]) -> tuple[str, str]:
    """Which of the two models, and over what."""
    if palette.is_presenting():
        return address.value("model", wording.MODELS, "personalized"), address.value("x", AXES, "round")
    with st.container(horizontal=True, key="live_axes"):
        model = address.switch("Model", wording.MODELS, "model", "personalized")
        x = address.switch("Horizontal axis", AXES, "x", "round")
    without = [run for run in runs if model == "global" and run.summary and not run.summary.get("global")]
    if without:
        st.caption(f"No global model to show: {wording.names(method_name(r.label, r.algorithm) for r in without)}.")
    return model, x


def grow(runs: Sequence[RunRecord], model: str, x: str) -> None:
    """The browser asks for new points and adds them."""
    empty = training_curve.data(runs, {})
    live_plot.live_plot(
        panels(runs, empty, x, latest_clients.figure(latest_clients.data(runs, {}), runs)),
        standings=[live_feed.standing(run) for run in runs], model=model, key=KEY, links=retry_links(runs),
        on_action=act, on_change=lambda: None,
    )  # fmt: skip
    if not palette.is_presenting() and not any(run.is_active for run in runs):
        page.table_button(curves(runs, model), key="live_curves", name="training-curves")


def redraw(runs: Sequence[RunRecord], model: str, x: str) -> None:
    """Without the routes: the page draws anew every two seconds while something trains."""
    active = any(run.is_active for run in runs)
    if active:
        st.info("This server redraws the figures, which forgets the zoom. Start it with python -m app to keep it.")
    ids = [run.id for run in runs]

    @st.fragment(run_every=REDRAW_S if active else None)
    def board() -> None:
        now = queries.runs(run_ids=ids, include_archived=True)
        if active and not any(run.is_active for run in now):
            st.rerun()
        for run in now:
            run_row(run)
        found = {run.id: live_feed.whole_curve(queries.store(), run, model) for run in now}
        table = training_curve.data(now, {run_id: curve.points for run_id, curve in found.items()})
        spread = latest_clients.data(now, {run_id: curve.clients for run_id, curve in found.items()})
        wide, side = st.columns([2, 1])
        figures = panels(now, table, x, latest_clients.figure(spread, now))
        with wide:
            page.chart(figures.pop("accuracy"), table, key="live_accuracy", alt=in_words(now), name="training-curves")
        with side:
            alt = "Accuracies of the clients in the latest round"
            page.chart(figures.pop("clients"), spread, key="live_clients", alt=alt, name="latest-clients")
        for column, (name, fig) in zip(st.columns(3), figures.items(), strict=True):
            with column:
                title = training_curve.PANELS[name][0]
                st.plotly_chart(fig, theme=None, key=f"live_{name}", alt=title, config=page.modebar(name))

    board()


def how_many(runs: Sequence[RunRecord]) -> None:
    """The number behind "lowest 5 %"."""
    partition = queries.partition(next((run.id for run in runs if run.round >= 0), runs[0].id))
    if partition:
        tested = sum(size > 0 for size in partition["test_sizes"])
        st.caption(f"Lowest 5 % = {wording.tail_note(tested)} clients, the least accurate in that round.")


def panels(runs: Sequence[RunRecord], table: pd.DataFrame, x: str, clients: go.Figure) -> dict[str, go.Figure]:
    """Accuracy large and the clients beside it, then loss, spread and cost; the last over rounds in any case."""
    small = {name: training_curve.figure(table, runs, name, "round" if name == "cost" else x, 250) for name in SMALL}
    return {"accuracy": training_curve.figure(table, runs, "accuracy", x), "clients": clients} | small


def curves(runs: Sequence[RunRecord], model: str) -> pd.DataFrame:
    points = {run.id: live_feed.whole_curve(queries.store(), run, model).points for run in runs}
    return training_curve.data(runs, points)


def named(run: RunRecord) -> str:
    return f"{method_name(run.label, run.algorithm)}, seed {run.seed}"


def in_words(runs: Sequence[RunRecord]) -> str:
    """The figure in a sentence, for those who cannot see it."""
    return "Training curves. " + "; ".join(f"{named(run)}: {live_feed.progress(run)}" for run in runs)


def run_row(run: RunRecord) -> None:
    """A run with its status and what one may ask of it."""
    with st.container(horizontal=True, vertical_alignment="center", key=f"run_{run.id}"):
        error = f" · {live_feed.first_line(run.error)}" if run.error else ""
        status = wording.STATUS[live_feed.status_of(run)]
        st.text(f"{named(run)} · {status} · {live_feed.progress(run)}{error}")
        if not palette.is_presenting():
            for action in live_feed.actions(run):
                st.button(action, key=f"{action}_{run.id}", on_click=perform, args=(action, [run.id]), type="tertiary")


def what_happened(run: RunRecord) -> None:
    """The log of a run that went wrong, and the way out."""
    with st.expander(f"What happened to {named(run)}?"):
        st.text(run.error or "no reason was stored")
        events = queries.store().events.list(run.id, limit=20)
        if events:
            st.code("\n".join(f"{e.at:%Y-%m-%d %H:%M:%S} {e.level} {e.message}" for e in events), language=None)
        if run.id in (offers := retry_links([run])):
            st.html(f'<a href="{offers[run.id]}" target="_self">Set it up again with a third of the learning rate</a>')


def retry_links(runs: Sequence[RunRecord]) -> dict[int, str]:
    """For each diverged run: Set up, filled with its configuration and a third of its learning rate."""
    return {run.id: links.setup_link(gentler(run)) for run in runs if run.status == "diverged"}


def gentler(run: RunRecord) -> dict[str, Any]:
    """The experiment of one run, with lr / 3."""
    parts = ("dataset", "partition", "model", "evaluation")
    training = {name: value for name, value in run.config["training"].items() if value is not None}
    training["lr"] = float(f"{training['lr'] / 3:.3g}")
    method = run.config["algorithm"] | {"label": run.label}
    return {
        "name": f"{run.experiment_name}, gentler", **{part: run.config[part] for part in parts}, "training": training,
        "algorithms": [method], "seeds": [run.seed],
    }  # fmt: skip


def act() -> None:
    """A button of the live figures was pressed."""
    asked = cast(dict[str, Any] | None, st.session_state[KEY].get("action"))
    if asked:
        perform(str(asked["action"]), [int(asked["run"])])


def perform(action: str, run_ids: Sequence[int]) -> None:
    queue = queries.store().queue
    match action:
        case "pause" | "cancel":
            queue.request(run_ids, action)
        case "resume":
            queue.resume(run_ids)
        case "retry":
            again = queue.rerun(run_ids)
            shown = page.ids_in_address("runs")
            if shown:
                kept = [run_id for run_id in shown if run_id not in run_ids]
                st.query_params["runs"] = ",".join(map(str, [*kept, *(run.id for run in again)]))


render()
