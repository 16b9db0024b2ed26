"""Compare: who gains, who is left behind, how fast, at what cost? Every choice on this page is in its address."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.charts.plot.palette import is_dark, is_presenting
from app.compare import selection
from app.compare.accuracy import distribution, over_time, who_loses
from app.compare.comparability import conflicts, missing, notes
from app.compare.configurations import configurations
from app.compare.dials import both_ends, swept
from app.compare.effort import effort
from app.compare.headline import by_value, headline
from app.compare.newcomers import newcomers
from app.compare.numbers import numbers
from app.compare.sharing import sharing
from app.compare.structure import clustered
from app.compare.truth import errors, errors_over_classes
from app.compare.view import METHOD, ROUNDS, TAILS, View
from app.components import page, report_capture
from app.components.examples import examples_button
from app.data import config_fields, queries
from app.data.comparison import methods_of
from app.papers import compare_section
from app.report.comparison import Comparison, report
from app.state import url_state
from app.wording import MODELS, kicker, lines, names, plain, plural
from storage import RunRecord

QUESTION = "Who gains, who is left behind?"


def render() -> None:
    page.require_store()
    runs = queries.runs()
    named = selection.chosen_runs(runs)
    chosen = selection.with_rounds(named)
    methods = tuple(methods_of(chosen))
    if len(methods) < 2:
        too_few(selection.with_rounds(runs), chosen, missing(named))
        return
    view = View.from_address(methods)
    clashes = conflicts(methods)
    choices = groupings(view)
    rows = view.pooled(url_state.value("by", choices, METHOD))
    found = None if view.clients().empty else finding(rows, bool(clashes))
    page.header(view.setting, QUESTION, found)
    row = controls(selection.with_rounds(runs), chosen, choices)
    if found is not None and not is_presenting():
        with row:
            report_button(view, rows, found)
    cautions(view, clashes, missing(named))
    if found is None:
        st.info(f"None of these methods has a {view.model} model; switch to {MODELS[view.other_model]}.")
        return
    for panel in (distribution, over_time):
        panel(rows)
    for panel in (
        who_loses,
        newcomers,
        clustered,
        swept,
        both_ends,
        errors,
        errors_over_classes,
        effort,
        compare_section.panel,
        configurations,
    ):
        panel(view)
    numbers(rows)


def groupings(view: View) -> dict[str, str]:
    """What a row can be: a method, or all runs with one value of a setting."""
    return {METHOD: "Method"} | {
        name: config_fields.title(name, view.methods) for name in config_fields.groupings(view.methods)
    }


def finding(view: View, is_mixed: bool) -> str:
    runs = view.per_run()
    if view.by != METHOD:
        return by_value(runs)
    if is_mixed:
        return "These runs differ in data or clients, so they cannot be ranked."
    return view.keep("headline", lambda: f"{headline(runs, view.share, view.clients())} {sharing(runs)}".strip())


def too_few(runs: list[RunRecord], chosen: list[RunRecord], absent: list[str]) -> None:
    """Fewer than two methods: show what there is and where to get more."""
    page.header(kicker(chosen) if chosen else "COMPARE", QUESTION, "A comparison needs two methods with results.")
    for sentence in absent:
        st.markdown(f"{plain(sentence)} See [Live](/live).")
    if len(methods_of(runs)) >= 2:
        count = len(methods_of(chosen))
        selected = f"{plural(count, 'method')} selected" if count or absent else "The runs in this link were not found"
        st.markdown(f"{selected}. Choose from these methods:")
        selection.chooser(runs, chosen, queries.experiments())
        return
    st.markdown(
        "Queue an experiment with several methods in [Set up](/setup), import one in the [Library](/library), or open "
        "the example results:"
    )
    examples_button()


def controls(runs: list[RunRecord], chosen: list[RunRecord], rows: dict[str, str]) -> DeltaGenerator:
    """Draws them in a row and returns the row."""
    row = st.container(horizontal=True, vertical_alignment="bottom", key="compare_controls")
    with row:
        url_state.switch("Model", MODELS, "model", View.model)
        url_state.switch("Tail", TAILS, "tail", str(View.tail))
        url_state.switch("Round", ROUNDS, "when", View.when)
        if not is_presenting():
            if len(rows) > 1:
                url_state.pick("Group by", rows, "by", METHOD)
            with st.popover("Choose runs", width="content"):
                selection.chooser(runs, chosen, queries.experiments())
    return row


def report_button(view: View, rows: View, found: str) -> None:
    """Download the page as a file, with the figures as currently configured."""
    here = Comparison(view, rows, report_capture.begin(), QUESTION, found, is_dark())
    st.download_button(
        "Export report (HTML)",
        partial(report, here),
        "comparison.html",
        "text/html",
        key="report",
        on_click="ignore",
        help="All figures and tables of this page in one file that works offline",
    )


def cautions(view: View, clashes: list[str], absent: list[str]) -> None:
    """Warn where these numbers are not comparable, and list other notes."""
    for sentence in clashes:
        st.warning(plain(sentence))
    captions = notes(view.methods) + absent
    with_model = set(view.clients()["method"])
    without = [method.name for method in view.methods if method.name not in with_model]
    if without and with_model:
        captions.append(f"{names(without)} {'has' if len(without) == 1 else 'have'} no {view.model} model.")
    if any(run.example for run in view.runs.values()):
        captions.append("Example results that ship with Fedscape.")
    if captions:
        st.caption(lines(captions))


with url_state.page("compare"):
    render()
