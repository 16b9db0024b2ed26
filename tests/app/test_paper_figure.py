"""The dialog "Figure for a paper": its panels, its choices, and its files."""

import ast
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import app
from app.components import paper_figure
from storage import Store
from tests.app.hostile import HOST, assert_is_text
from tests.app.pages import open_page, words

opened = partial(open_page, "compare")
opened_run = partial(open_page, "run")


def from_page(page: AppTest, key: str) -> AppTest:
    """Opens the popover of a chart, and from it the dialog. A rerun of the page closes it."""
    page.session_state[f"{key}_table"] = True
    page.run()
    page.button(key=f"{key}_for_paper").click().run()
    assert not page.exception
    return page


def dialog() -> AppTest:
    """The contents of the dialog with two charts on a page of their own."""

    def script() -> None:
        import streamlit as st

        from app.charts import dumbbell, ecdf
        from app.components import paper_figure
        from app.components.shown import Shown
        from tests.app.frames import clients

        table = clients(1000, a=[[0.5, 0.9]], b=[[0.4, 0.6]])
        rows, steps = dumbbell.data(table, 0.05), ecdf.data(table)
        charts = [
            Shown(dumbbell.figure(rows), rows, "a leads", "Low and top", "Two clients.", "dumbbell", "low-top"),
            Shown(ecdf.figure(steps), steps, "b is below", "Share of clients", None, "ecdf", "ecdf"),
        ]
        if st.toggle("Open", True, key="is_open"):
            paper_figure.contents({one.key: one for one in charts}, "dumbbell")

    page = AppTest.from_function(script, default_timeout=60).run()
    assert not page.exception
    return page


CAPTIONS = ("alt", "also", "caption")
CAPTION = re.compile(rf"\b(?:{'|'.join(CAPTIONS)})=")
HINT = re.compile(r"(?i)\b(?:click|double-click|drag|hover|mouse|press|scroll|slider|tap|tooltip)")


def printed_texts(file: Path) -> Iterator[str]:
    """The string constants in a file that a figure for a paper may print: all of a chart, and captions of a view."""
    text, is_chart = file.read_text(), "charts" in file.parts
    if not is_chart and not CAPTION.search(text):
        return
    nodes = list(ast.walk(ast.parse(text)))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in nodes if isinstance(node, documented)}
    keywords = (keyword for node in nodes if isinstance(node, ast.Call) for keyword in node.keywords)
    captions = (part for keyword in keywords if keyword.arg in CAPTIONS for part in ast.walk(keyword.value))
    values = (node.value for node in (nodes if is_chart else captions) if isinstance(node, ast.Constant))
    yield from (value for value in values if isinstance(value, str) and value not in docstrings)


def test_no_caption_or_label_of_a_chart_has_instructions_for_the_screen() -> None:
    files = sorted(Path(app.__file__).parent.rglob("*.py"))
    texts = [(file.name, text) for file in files for text in printed_texts(file)]
    assert len(texts) > 1000
    assert [(name, text) for name, text in texts if HINT.search(text) and " " in text] == []


def test_a_hint_follows_the_caption_on_the_screen_and_is_not_printed(read_store: Store) -> None:
    page = opened_run(id=7)
    assert "highest on top. Click a row to open the client." in words(page)
    charts = page.session_state["paper.shown"]
    chart = next(one for one in charts.values() if one.hint)
    assert not HINT.search(paper_figure.caption([chart])) and "highest on top." in paper_figure.caption([chart])


def preview(page: AppTest) -> str:
    (found,) = (body for element in page.get("html") if "true-size" in (body := str(element.value)))
    return found


@pytest.mark.slow
def test_compare_offers_the_charts_of_all_its_sections(read_store: Store) -> None:
    page = from_page(opened(experiment=1), "dumbbell")
    panels = page.multiselect(key="paper_panels_dumbbell")
    assert panels.value == ["dumbbell"]
    assert {"Share of clients at or below an accuracy", "Accuracy against cost"} < set(panels.options)
    assert "width:3.25in" in preview(page)


@pytest.mark.slow
def test_inside_a_run_offers_the_charts_of_the_open_tab(read_store: Store) -> None:
    page = from_page(open_page("run", id=1), "client_spread")
    panels = page.multiselect(key="paper_panels_client_spread").options
    assert "Accuracy of each client, personalized model" in panels and "Accuracy against cost" not in panels
    assert "width:3.25in" in preview(page)


@pytest.mark.slow
def test_the_preview_has_the_chosen_size_and_the_choices_are_kept_for_the_next_figure() -> None:
    page = dialog()
    assert 'src="data:image/svg+xml;base64,' in preview(page) and "width:3.25in" in preview(page)
    assert [button.label for button in page.get("download_button")] == ["Download PDF", "Download SVG"]
    page.selectbox(key="paper_width").set_value("icml2").run()
    assert "width:6.75in" in preview(page)
    page.selectbox(key="paper_width").set_value("other")
    page.selectbox(key="paper_font").set_value("cm").run()
    page.number_input(key="paper_inches").set_value(4.2)
    page.number_input(key="paper_size").set_value(9.0).run()
    assert "width:4.2in" in preview(page)
    page.toggle(key="is_open").set_value(False).run()
    assert not page.selectbox
    page.toggle(key="is_open").set_value(True).run()
    assert page.selectbox(key="paper_font").value == "cm" and page.number_input(key="paper_size").value == 9.0
    assert "width:4.2in" in preview(page)


@pytest.mark.slow
def test_panels_are_in_the_chosen_order_and_write_the_caption() -> None:
    page = dialog()
    assert page.code[0].value == "Low and top. Two clients."
    page.multiselect(key="paper_panels_dumbbell").set_value(["ecdf", "dumbbell"]).run()
    assert page.code[0].value == "(a) Share of clients. b is below (b) Low and top. Two clients."
    page.multiselect(key="paper_panels_dumbbell").set_value([]).run()
    assert "Choose at least one panel." in words(page)


@pytest.mark.slow
def test_a_figure_without_room_for_its_marks_is_refused_with_advice() -> None:
    page = dialog()
    page.number_input(key="paper_height").set_value(0.5)
    page.number_input(key="paper_size").set_value(24.0).run()
    assert "choose a larger figure or a smaller font" in page.warning[0].value and not page.exception


@pytest.mark.slow
def test_the_charts_of_hostile_runs_are_printed(read_hostile_store: Store) -> None:
    run = next(run for run in read_hostile_store.queue.runs() if run.algorithm == "cgpfl")
    assert "width:3.25in" in preview(from_page(open_page("run", id=run.id), "client_spread"))


def test_names_in_the_dialog_are_text() -> None:
    def script() -> None:
        from app.charts import ecdf
        from app.components import paper_figure
        from app.components.shown import Shown
        from tests.app.frames import clients
        from tests.app.hostile import NAME

        steps = ecdf.data(clients(1000, **{NAME: [[0.5, 0.9]]}))
        shown = Shown(ecdf.figure(steps), steps, f'" onload="{NAME}', NAME, NAME, "ecdf", "ecdf")
        paper_figure.contents({"ecdf": shown}, "ecdf")

    page = AppTest.from_function(script, default_timeout=60).run()
    body = re.sub(r'src="data:image/svg\+xml;base64,[\w+/=]+"', "", preview(page))
    assert HOST in body and re.findall(r"<(/?\w+)", body) == ["div", "img", "/div"]
    assert '" onload' not in body and HOST in page.code[0].value
    page.get("html")[-1].proto.body = ""  # checked above
    assert_is_text(page)


def test_a_chart_in_three_dimensions_names_the_other_downloads() -> None:
    def script() -> None:
        import plotly.graph_objects as go

        from app.components import paper_figure
        from app.components.shown import Shown

        hill = Shown(go.Figure(go.Surface(z=[[1, 2], [3, 4]])), None, "alt", "Hills", None, "hill", "hill")  # type: ignore[arg-type]
        paper_figure._result([hill], paper_figure.Settings())

    page = AppTest.from_function(script, default_timeout=30).run()
    assert "A surface in three dimensions has no printed form yet. Download it as PNG or SVG instead." in words(page)


@pytest.mark.parametrize("name", list(paper_figure.WIDTHS))
def test_every_width_is_named_with_its_inches(name: str) -> None:
    assert paper_figure._width_title(name).endswith(" in")
