"""Compare: methods by accuracy, client, speed and cost. Every choice on this page is in its address."""

from collections.abc import Iterator
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.charts.plot.palette import is_presenting
from app.compare import accuracy, chosen_clients, sections, selection
from app.compare.comparability import conflicts, missing
from app.compare.headline import by_value, headline, title, title_by_value
from app.compare.remarks import remarks
from app.compare.section import Part
from app.compare.sharing import sharing
from app.compare.view import METHOD, ROUNDS, TAILS, View
from app.components import page, paper_figure
from app.components.examples import examples_button
from app.components.top_of_section import top_of_section
from app.data import config_fields, queries
from app.data.comparison import is_final, methods_of
from app.papers import compare_section
from app.report.comparison import Comparison, report
from app.state import url_state, widgets
from app.state.choice import Choices
from app.wording import MODELS, capitals, kicker, lines, plain, plural
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
    clashes, absent = conflicts(methods), missing(named)
    titles = groupings(view)
    rows = view.pooled(url_state.value("by", titles, METHOD))
    found = None if view.clients().empty else finding(rows)
    page.header(capitals(view.setting), *(found or (QUESTION,)))
    row = controls(selection.with_rounds(runs), chosen, titles)
    if found is not None and not is_presenting():
        with row:
            report_button(view, rows, *found, absent)
    cautions(view, clashes, absent)
    if found is None:
        st.info(f"None of these methods has a {view.model} model; switch to {MODELS[view.other_model]}.")
        return
    choices = url_state.address()
    paper_figure.offer(lambda: [one for part in parts(view, rows, choices) for one in part.figures])
    open_section(view, rows)


@url_state.fragment
def open_section(view: View, rows: View) -> None:
    """The bar with the sections, which stays in view, and the open one."""
    with st.container(horizontal=True, vertical_alignment="center", key="compare_bar"):
        name = sections.OPEN.switch(is_labeled=False)
        if sections.SECTIONS[name].shows_clients:
            chosen_clients.picker(rows, accuracy.highlight(rows).value())
        top_of_section(name, "compare_bar")
    sections.SECTIONS[name].draw(view, rows)
    if name == "accuracy":
        compare_section.panel(view)


def parts(view: View, rows: View, choices: Choices) -> Iterator[Part]:
    """All figures that this page can show with these choices."""
    yield from sections.parts(view, rows, choices)
    yield from compare_section.parts(view, choices)


def groupings(view: View) -> dict[str, str]:
    """The possible groupings of rows: by method, or by the value of a setting."""
    return {METHOD: "Method"} | {
        name: config_fields.title(name, view.methods) for name in config_fields.groupings(view.methods)
    }


def finding(view: View) -> tuple[str, str]:
    """The title of the page, and the sentence below it."""
    runs = view.per_run()
    if view.by != METHOD:
        return title_by_value(runs), by_value(runs)
    if not view.is_ranked:
        return "These runs cannot be ranked", "They differ in data or clients, as listed below."
    if runs["method"].nunique() < 2:
        return QUESTION, headline(runs, view.share, view.clients(), view.has_malicious)
    return view.keep("headline", lambda: (title(runs), in_words(runs, view)))


def in_words(runs: pd.DataFrame, view: View) -> str:
    return f"{headline(runs, view.share, view.clients(), view.has_malicious)} {sharing(runs)}".strip()


def too_few(runs: list[RunRecord], chosen: list[RunRecord], absent: list[str]) -> None:
    """Fewer than two methods: show the available ones and where to get more."""
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


def controls(runs: list[RunRecord], chosen: list[RunRecord], titles: dict[str, str]) -> DeltaGenerator:
    """Draws the controls of the page in a row, and returns the row for more of them."""
    row = st.container(horizontal=True, vertical_alignment="bottom", key="compare_controls")
    with row:
        widgets.switch("Model", MODELS, "model", View.model)
        widgets.switch("Tail", TAILS, "tail", str(View.tail))
        widgets.switch("Round", ROUNDS, "when", View.when)
        if not is_presenting():
            if len(titles) > 1:
                widgets.pick("Group by", titles, "by", METHOD)
            if study := next((run.experiment_id for run in chosen if is_final(run)), None):
                page.link("study", "The study", experiment=study)
            with st.popover("Choose runs", width="content"):
                selection.chooser(runs, chosen, queries.experiments())
    return row


def report_button(view: View, rows: View, heading: str, found: str, absent: list[str]) -> None:
    """A button that downloads all sections with the current choices as an HTML file."""
    here = Comparison(view, rows, parts, url_state.address(), st.context.url or "", heading, found, absent)
    st.download_button(
        "Export report (HTML)",
        partial(report, here),
        "comparison.html",
        "text/html",
        key="report",
        on_click="ignore",
        help="All figures and tables of all sections in one file that works offline",
    )


def cautions(view: View, clashes: list[str], absent: list[str]) -> None:
    """Warn where these numbers are not comparable, and list other notes."""
    for sentence in clashes:
        st.warning(plain(sentence))
    if known := remarks(view, absent):
        st.caption(lines(known))


with url_state.page("compare"):
    render()
