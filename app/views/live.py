"""Live: what is training now, its progress, and the actions on it."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, ParamSpec, cast

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import endpoints, wording
from app.charts import latest_clients, training_curve
from app.charts.plot import figure_cache, figure_text, palette
from app.charts.plot.method_styles import looks_of_runs
from app.components import live_plot, page, terms
from app.data import column_heads, queries
from app.data.averages import malicious_of
from app.data.comparison import method_name
from app.data.costs import AXIS_CHOICES
from app.data.method_labels import labels, run_names
from app.data.pulse import silences
from app.live import live_feed, log
from app.live.choice import chosen_runs, controls, experiment_control, resume_all
from app.live.requests import perform, refusal
from app.live.trouble import retry_links, what_went_wrong
from app.live.up_next import up_next
from app.state import url_state, widgets
from app.state.fragments import fragment
from engine.simulation.evaluation import evaluated_clients
from storage import ExperimentRecord, RunRecord

KEY = "live"
REDRAW_S = 2.0
AXES = {axis: AXIS_CHOICES[axis] for axis in ("round", "megabytes", "seconds")}
SMALL = ("loss", "spread", "cost")
IN_A_ROW = 3  # small figures
P = ParamSpec("P")


def render() -> None:
    page.require_store()
    refusal()
    experiments = queries.experiments()
    listed = chosen_runs(experiments)
    if not listed:
        nothing_here(experiments)
        up_next()
        return
    headline(listed)
    shown = controls(experiments, listed)
    nothing_drawn = all(run.round < 0 for run in shown)
    if nothing_drawn:
        what_went_wrong(listed)
    model, x = axis_controls(shown)
    color_key(shown)
    if endpoints.are_served:
        grow(shown, model, x)
    else:
        redraw(shown, model, x)
    how_many(shown)
    inside(shown)
    if not nothing_drawn:
        what_went_wrong(listed)
    up_next(shown)


def nothing_here(experiments: Sequence[ExperimentRecord]) -> None:
    """Explain why there is nothing to show, and link to other pages."""
    gone = url_state.ids("runs") or url_state.ids("experiment")
    if gone:
        reason = "The runs in this link no longer exist."
    else:
        reason = "No experiments of your own yet. Open an example:" if experiments else "No experiments yet."
    page.header("Live", "What is training now?", reason)
    if experiments:
        experiment_control(experiments, None)
    page.link("setup", "Set up an experiment")


def headline(runs: Sequence[RunRecord]) -> None:
    silent_s = silences(queries.store(), runs)
    statuses = [live_feed.status_of(run, silent_s.get(run.id, 0.0)) for run in runs]
    counts = {status: statuses.count(status) for status in wording.STATUS}
    summary = ", ".join(f"{n} {wording.STATUS[status]}" for status, n in counts.items() if n)
    names = list(dict.fromkeys(run.experiment_name for run in runs))
    page.titled(wording.names(names), "live")
    name = wording.names(f"“{name}”" for name in names)
    if any(run.is_active for run in runs):
        page.header(wording.kicker(runs), "What is training now?", f"{name}: {summary}.")
        link_to_study(runs)
    elif any(run.status == "paused" for run in runs):
        page.header(wording.kicker(runs), "Training is paused", f"{name}: {summary}.")
        with st.container(horizontal=True, vertical_alignment="center", key="live_next"):
            if not palette.is_presenting():
                resume_all(runs)
            link_to_study(runs)
            if any(run.round >= 0 for run in runs):
                link_to_compare(runs)
    else:
        page.header(wording.kicker(runs), "How did it go?", ended(name, statuses, summary))
        with st.container(horizontal=True, key="live_next"):
            link_to_study(runs)
            link_to_compare(runs)
            page.link("setup", "Set up another experiment")


def link_to_compare(runs: Sequence[RunRecord]) -> None:
    page.link("compare", "Compare these runs", runs=",".join(str(run.id) for run in runs))


def link_to_study(runs: Sequence[RunRecord]) -> None:
    if runs[0].study is not None:
        page.link("study", "Progress and choices of the study", experiment=runs[0].experiment_id)


def ended(name: str, statuses: Sequence[str], summary: str) -> str:
    """``All 16 runs of “mnist” finished.``, or how many ended in which way."""
    if any(status != "done" for status in statuses):
        return f"{name}: {summary}."
    return f"All {len(statuses)} runs of {name} finished." if len(statuses) > 1 else f"The run of {name} finished."


def axis_controls(runs: Sequence[RunRecord]) -> tuple[str, str]:
    """The controls for the model and the horizontal axis."""
    if palette.is_presenting():
        return url_state.value("model", wording.MODELS, "personalized"), url_state.value("x", AXES, "round")
    with st.container(horizontal=True, key="live_axes"):
        model = widgets.switch("Model", wording.MODELS, "model", "personalized")
        x = widgets.switch("Horizontal axis", AXES, "x", "round")
    without = [run for run in runs if model == "global" and run.summary and not run.summary.get("global")]
    if without:
        absent = wording.names(method_name(run.label, run.algorithm) for run in without)
        terms.caption(f"No global model to show: {absent}.")
    return model, x


def color_key(runs: Sequence[RunRecord]) -> None:
    """The colors of the methods, for all charts."""
    look, label = looks_of_runs(runs), labels(runs)
    colors = {label[run.id]: look[run.id].color for run in runs}
    if len(colors) > 1:
        items = (f'<span><i style="color: {color}"></i>{escape(name)}</span>' for name, color in colors.items())
        st.html(f'<p class="key">{"".join(items)}</p>')


def grow(runs: Sequence[RunRecord], model: str, x: str) -> None:
    """The browser polls for new points and adds them."""
    empty = training_curve.data(runs, {})
    live_plot.live_plot(
        panels(runs, empty, x, latest_clients.data(runs, {})),
        standings=live_feed.standings(queries.store(), runs),
        model=model,
        key=KEY,
        links=retry_links(runs),
        on_action=act,
    )
    if not palette.is_presenting() and not any(run.is_active for run in runs):
        with st.container(horizontal=True, key="figure_head_live"):
            page.table_button(
                curves(runs, model),
                key="live_curves",
                name="training-curves",
                scope=".live-figures",
                heads=column_heads.LIVE,
            )


def redraw(runs: Sequence[RunRecord], model: str, x: str) -> None:
    """Redraw the page every two seconds while something trains, if the server lacks the routes."""
    active = any(run.is_active for run in runs)
    if active:
        st.info(
            "Charts are redrawn on every update, which resets the zoom. Start Fedscape with python -m app to avoid it."
        )
    ids = [run.id for run in runs]

    def board() -> None:
        refusal()
        now = queries.runs(run_ids=ids, include_archived=True)
        if active and not any(run.is_active for run in now):
            st.rerun()
        for run, standing in zip(now, live_feed.standings(queries.store(), now), strict=True):
            run_row(run, standing)
        found = {run.id: live_feed.whole_curve(queries.store(), run, model) for run in now}
        table = training_curve.data(now, {run_id: curve.points for run_id, curve in found.items()})
        spread = latest_clients.data(now, {run_id: curve.clients for run_id, curve in found.items()})
        wide, side = st.columns([2, 1])
        figures = panels(now, table, x, spread)
        with wide:
            page.chart(
                figures.pop("accuracy"),
                table,
                key="live_accuracy",
                alt=in_words(now),
                name="training-curves",
                heads=column_heads.LIVE,
            )
        with side:
            alt = "Client accuracies in the latest round"
            page.chart(
                figures.pop("clients"),
                spread,
                key="live_clients",
                alt=alt,
                name="latest-clients",
                heads=column_heads.LIVE,
            )
        for place, (name, fig) in enumerate(figures.items()):
            if place % IN_A_ROW == 0:
                row = st.columns(IN_A_ROW)
            with row[place % IN_A_ROW]:
                title = str(fig.layout.title.text)
                shown = figure_text.without_links(fig)
                st.plotly_chart(shown, theme=None, key=f"live_{name}", alt=title, config=page.modebar(name))
        with st.expander("Log (times in UTC)", key="live_log"):
            st.code(log.log_of(queries.store(), now), language=None, wrap_lines=True)

    fragment(board, run_every=REDRAW_S if active else None)()


def how_many(runs: Sequence[RunRecord]) -> None:
    """The number of clients in the lowest 5 %, and whether runs are evaluated on validation data."""
    on_validation = sum(not run.is_tested for run in runs)
    if on_validation:
        these = "These runs" if on_validation == len(runs) else f"{on_validation} of these {len(runs)} runs"
        terms.caption(f"{these} are evaluated on validation data.")
    of_clients = {_what_is_evaluated(run): run for run in runs if run.round >= 0} or {"": runs[0]}
    notes = dict.fromkeys(filter(None, map(_tail_note, of_clients.values())))
    if notes:
        terms.caption(f"Lowest 5 % = {' or '.join(notes)}, the least accurate in that round.")


def _what_is_evaluated(run: RunRecord) -> str:
    """Equal for runs with the same evaluated clients."""
    return repr([run.config.get(name) for name in ("dataset", "partition", "evaluation", "attack")] + [run.split])


def _tail_note(run: RunRecord) -> str:
    """``2 of 40 clients``; empty if the run has no data yet."""
    partition = queries.partition(run.id)
    if not partition:
        return ""
    malicious = set(malicious_of(partition))
    sizes = partition["test_sizes" if run.is_tested else "val_sizes"]
    evaluated = evaluated_clients(run.config.get("evaluation", {}).get("clients"), run.split, len(sizes)).tolist()
    tested = sum(sizes[client] > 0 for client in evaluated if client not in malicious)
    return wording.tail_note(tested, are_benign=bool(malicious))


def inside(runs: Sequence[RunRecord]) -> None:
    """Links to each run that has started."""
    started, names = [run for run in runs if run.round >= 0], run_names(runs)
    if not started or palette.is_presenting():
        return
    with st.container(horizontal=True, vertical_alignment="center", key="live_inside"):
        st.caption("Inside each run:", width="content")
        for run in started:
            page.link("run", wording.plain(names[run.id]), id=run.id)


def panels(runs: Sequence[RunRecord], table: pd.DataFrame, x: str, clients: pd.DataFrame) -> dict[str, go.Figure]:
    """A large chart of accuracy with the ``clients`` next to it, then loss, spread and cost, and what the runs record
    about uploads; cost is always over rounds. The figures are cached when all runs have ended.
    """
    have_ended = not any(run.is_active for run in runs) and any(run.round >= 0 for run in runs)
    draw = figure_cache.figure if have_ended else uncached
    figures = {
        "accuracy": draw(training_curve.figure, table, runs, "accuracy", x),
        "clients": draw(latest_clients.figure, clients, runs),
    }
    for name in (*SMALL, *training_curve.uploads_of(runs)):
        figures[name] = draw(training_curve.figure, table, runs, name, "round" if name == "cost" else x, 250)
    if all(run.round < 0 and not run.is_active for run in runs):
        for fig in figures.values():
            fig.update_xaxes(showticklabels=False).update_yaxes(showticklabels=False)
        figures["accuracy"].add_annotation(
            x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False, text="No round was completed."
        )
    return figures


def uncached(draw: Callable[P, go.Figure], *args: P.args, **kwargs: P.kwargs) -> go.Figure:
    return draw(*args, **kwargs)


def curves(runs: Sequence[RunRecord], model: str) -> pd.DataFrame:
    points = {run.id: live_feed.whole_curve(queries.store(), run, model).points for run in runs}
    return training_curve.data(runs, points)


def in_words(runs: Sequence[RunRecord]) -> str:
    """The figure in a sentence, for screen readers."""
    names = run_names(runs)
    return "Training curves. " + "; ".join(f"{names[run.id]}: {live_feed.progress(run)}" for run in runs)


def run_row(run: RunRecord, standing: Mapping[str, Any]) -> None:
    """A run with its status and actions."""
    with st.container(horizontal=True, vertical_alignment="center", key=f"run_{run.id}"):
        parts = [
            f"{standing['label']}, {run.seeds_in_words}",
            wording.STATUS[standing["status"]],
            standing["progress"],
            standing["error"],
        ]
        st.text(" · ".join(filter(None, parts)))
        if not palette.is_presenting():
            for action in standing["actions"]:
                st.button(action, key=f"{action}_{run.id}", on_click=perform, args=(action, [run.id]), type="tertiary")


def act() -> None:
    """A button of the live figures was pressed."""
    pressed_action = cast(dict[str, Any] | None, st.session_state[KEY].get("action"))
    if pressed_action:
        perform(str(pressed_action["action"]), [int(run_id) for run_id in pressed_action["runs"]])


with url_state.page("live"):
    render()
