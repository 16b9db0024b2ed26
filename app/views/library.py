"""Library: all runs; selected ones can be compared, rerun, archived, deleted or exported."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app import wording
from app.access import permits
from app.actions import launch
from app.components import page
from app.data import queries
from app.library import actions, audit, chosen, disk, filters, flash, listing, machines, saved, sources, trash
from app.library.flash import Notice, attempt
from app.state import links, url_state
from engine.config.presets import load_preset, preset_names
from storage import RunRecord

STYLE = Path(listing.__file__).with_name("library.css")
DEMO, STARTED = "digits-first", "library.started"


def render() -> None:
    page.require_store()
    if st.session_state.pop(STARTED, None):
        st.session_state.pop(flash.KEY, None)  # Live shows it
        launch.open_page("live", "Watch it train")
    st.html(STYLE)
    flash.bar()
    runs = queries.runs(include_archived=True, newest_first=True)
    experiments = {run.experiment_id for run in runs}
    count = f"{wording.plural(len(runs), 'run')} · {wording.plural(len(experiments), 'experiment')}"
    page.header(count if runs else "No runs yet", "Runs")
    if runs:
        every_run(runs)
    else:
        first_start()
    trash.expander(is_open=not runs)
    machines.expander(queries.engines(machines.GONE_S))
    disk.expander(queries.store().disk_use(), runs)
    audit.expander()


def every_run(runs: Sequence[RunRecord]) -> None:
    """Saved views and filters, the list, the selection and its actions."""
    saved.bar()
    run_filter, with_archived = filters.controls(runs)
    put_away = {e.id for e in queries.experiments(include_archived=True) if e.archived}
    shown = [run for run in runs if with_archived or not (run.archived or run.experiment_id in put_away)]
    listed = listing.panel([run for run in shown if run_filter.passes(run)], len(shown))
    by_id = {run.id: run for run in runs}
    with st.container(key="library_selection"):
        if picked := chosen.panel(by_id, listed):
            actions.panel(picked)
    with st.expander("Import runs", key="library_import"):
        sources.panel()


def first_start() -> None:
    """No runs yet: offer the demo, a new experiment and import."""
    left, right = st.columns(2, gap="large")
    with left:
        st.header("See it work", anchor=False)
        st.write("Watch five methods learn handwritten digits on forty clients in about a minute.")
        if DEMO in preset_names():
            reason = permits.refusal("queue")
            st.button(
                "Start the 60-second demo",
                type="primary",
                key="demo",
                on_click=attempt,
                args=(start_demo,),
                disabled=reason is not None,
                help=reason,
            )
    with right:
        st.header("Bring your own", anchor=False)
        st.html(f'<p><a href="{links.link("setup")}" target="_self">Set up an experiment</a>, or import runs.</p>')
        sources.panel()


def start_demo() -> Notice:
    launch.queue_preset(load_preset(DEMO), "quick")
    st.session_state[STARTED] = True
    return Notice("The demo is queued.")


with url_state.page("library"):
    render()
