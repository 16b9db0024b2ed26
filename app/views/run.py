"""Inside a run: one tab per question, all showing the same round. Every choice on this page is in its address."""

import streamlit as st

from app.charts.plot.palette import is_presenting
from app.components import page
from app.components.examples import examples_button
from app.data import queries
from app.data.own_first import own_or_examples
from app.data.pulse import silences
from app.data.thinning import evenly
from app.inside import chooser
from app.inside.clients import headline
from app.inside.tab import Tab, tabs
from app.inside.view import RunView
from app.live import live_feed
from app.live.trouble import what_happened
from app.state import links, url_state, widgets
from app.wording import MODELS, STATUS, STATUS_MEANING, kicker, plain
from storage import RunRecord

MAX_ROUNDS = 300  # of a slider
MAX_QUOTED = 20  # letters of an address


def render() -> None:
    page.require_store()
    run = chosen()
    if run is None:
        nothing_here()
        return
    view = RunView(run)
    page.titled(f"{view.name} · run {run.id}", "run")
    finding = headline(view) if len(view.rounds) else None
    page.header(kicker(run), f"What happened inside {view.name}?", finding)
    condition(run)
    shown = offered(view)
    with st.container(horizontal=True, vertical_alignment="bottom", key="inside_controls"):
        titles = {name: tab.title for name, tab in shown.items()}
        tab = shown[widgets.switch("View", titles, "tab", next(iter(titles)))]
        chooser.controls(run)
    moving(view, tab)
    tab.panel(view)
    if not is_presenting():
        elsewhere(run)


def chosen() -> RunRecord | None:
    """The run that the address names; without one the newest with results."""
    if (run_id := chooser.run_in_address()) is not None:
        ids = links.parse_ids(run_id)
        found = queries.runs(run_ids=ids[:1], include_archived=True, with_partition=True) if ids else []
        return found[0] if found else None
    return newest()


def newest() -> RunRecord | None:
    """Of an example only if there are no others."""
    found = own_or_examples([run for run in queries.runs(newest_first=True) if run.round >= 0])
    return found[0] if found else None


def nothing_here() -> None:
    """No such run, or no runs at all: explain why, and link to others."""
    run_id = chooser.run_in_address()
    page.header(
        "INSIDE A RUN", "What happened inside?", "No run has results yet." if run_id is None else missing(run_id)
    )
    with st.container(horizontal=True, vertical_alignment="center", key="inside_ways"):
        other = newest()
        if other is not None:
            page.link("run", f"Open the newest run with results, run {other.id}", id=other.id)
        page.link("library", "See all runs in the Library")
        page.link("setup", "Set up an experiment")
        if run_id is None:
            examples_button()


def missing(run_id: str) -> str:
    """Why the run that the address names cannot be shown."""
    ids = links.parse_ids(run_id)
    if not ids:
        return f"“{run_id[:MAX_QUOTED]}” is not a run number. Links look like /run?id=5."
    if any(run.id == ids[0] for run in queries.store().trash.list()):
        return f"Run {ids[0]} was deleted. You can restore it from the trash in the Library."
    return f"Run {ids[0]} does not exist or was permanently deleted."


def condition(run: RunRecord) -> None:
    """The state of the run, unless it is done."""
    silent_s = silences(queries.store(), [run]).get(run.id, 0.0)
    status = live_feed.status_of(run, silent_s)
    notes = [] if status == "done" else [f"{STATUS[status].capitalize()}: {STATUS_MEANING[status]}."]
    if status != "done" and run.round >= 0:
        notes.append(f"{live_feed.progress(run, silent_s).capitalize()}.")
    if run.example:
        notes.append("An example result that ships with Fedscape.")
    if not run.is_tested:
        notes.append("Evaluated on validation data only, so it has no test accuracies.")
    if run.archived:
        notes.append("Archived.")
    if notes:
        st.caption(plain(" ".join(notes)))
    if run.is_active:
        with st.container(horizontal=True, vertical_alignment="center", key="inside_running"):
            st.button("Refresh", key="look_again", help="Load the latest results")
            page.link("live", "Watch it live", runs=run.id)
    what_happened(run)


def offered(view: RunView) -> dict[str, Tab]:
    """The tabs that apply to this run."""
    if not len(view.rounds):
        return {name: tab for name, tab in tabs().items() if not tab.needs_rounds}
    return {name: tab for name, tab in tabs().items() if tab.applies(view)}


def moving(view: RunView, tab: Tab) -> None:
    """The round, and which of the two models, for the tabs that have them."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="inside_round"):
        if tab.of_one_model:
            if len(view.models) > 1:
                widgets.switch("Model", {model: MODELS[model] for model in view.models}, "model", "personalized")
            else:
                st.caption(plain(f"{view.method} has no global model."))
        if tab.moves_with_rounds and len(view.rounds) > 1:
            shown = sorted({*view.rounds[evenly(len(view.rounds), MAX_ROUNDS)].tolist(), view.round})
            widgets.slide("Round", {str(r): str(r) for r in shown}, "round", str(view.rounds[-1]))


def elsewhere(run: RunRecord) -> None:
    """Links to the same run on other pages."""
    with st.container(horizontal=True, key="inside_elsewhere"):
        page.link("compare", "Compare with its experiment", experiment=run.experiment_id)
        page.link("handbook", "Method in the handbook", method=run.algorithm)
        page.link("library", "All runs")


with url_state.page("run"):
    render()
