"""Names from links, imported files and plugins are only ever shown as text."""

import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.charts.plot import figure_text
from app.data.entry_text import LABELS
from app.inside.tab import tabs
from app.state.links import pack_config
from engine.config.schema import parse_experiment
from engine.core.paths import ROOT
from engine.core.registry import ALGORITHMS
from engine.exchange.records import new_run
from storage import Store
from tests.app.hostile import HOST, NAME, assert_is_text, figure_texts, markdown
from tests.app.pages import open_page
from tests.app.samples import DIGITS


@pytest.fixture
def runs(read_hostile_store: Store) -> list[int]:
    return [run.id for run in read_hostile_store.queue.runs()]


def test_the_check_of_a_page_detects_markup() -> None:
    def page() -> None:
        import streamlit as st

        from tests.app.hostile import NAME

        st.caption(NAME)

    with pytest.raises(AssertionError):
        assert_is_text(AppTest.from_function(page).run())


@pytest.mark.slow
def test_compare_shows_names_as_text(runs: list[int]) -> None:
    page = open_page("compare", runs=",".join(map(str, runs)))
    assert_is_text(page)
    assert any("evil" in text for _, text in markdown(page)) and any("evil" in text for text in figure_texts(page))


@pytest.mark.parametrize("tab", tabs())
@pytest.mark.slow
def test_inside_a_run_shows_names_as_text(runs: list[int], read_hostile_store: Store, tab: str) -> None:
    everything = read_hostile_store.queue.runs(run_ids=runs)
    clustered = next(run for run in everything if run.algorithm == "cgpfl")
    failed = next(run for run in everything if run.status == "failed")
    for run in (clustered, failed) if tab in ("clients", "record") else (clustered,):
        page = open_page("run", id=run.id, tab=tab, client=0)
        assert_is_text(page)
        assert any("evil" in text for kind, text in markdown(page) if kind == "Heading")


@pytest.mark.slow
def test_live_shows_names_as_text(runs: list[int]) -> None:
    assert_is_text(open_page("live", runs=",".join(map(str, runs))))
    assert_is_text(open_page("live"))


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_live_and_compare_show_errors_as_text(empty_store: Store, status: Any) -> None:
    named = DIGITS | {"name": NAME, "algorithms": [{"name": "fedavg", "label": NAME}], "seeds": [0]}
    empty_store.experiments.create(NAME, named, [new_run(run) for run in parse_experiment(named).runs()])
    run = empty_store.queue.claim()
    assert run is not None
    empty_store.queue.finish(run.id, run.epoch, status, error=NAME)
    for page in (open_page("live"), open_page("compare", experiment="1"), open_page("run", id=run.id)):
        assert_is_text(page)


def test_set_up_shows_names_as_text(empty_store: Store) -> None:
    sweep = {"name": "ditto", "label": NAME, "sweep": {NAME: [1]}, "training": {"lr": NAME}}
    config = DIGITS | {"name": NAME, "algorithms": [sweep, {"name": NAME}], NAME: 1}
    page = open_page("setup", config=pack_config(config))
    assert page.warning
    assert_is_text(page)
    assert_is_text(open_page("setup", config=pack_config(DIGITS | {"dataset": {"name": "custom", "path": NAME}})))


@pytest.mark.slow
def test_library_shows_names_as_text(hostile_store: Store) -> None:
    runs = [run.id for run in hostile_store.queue.runs()]
    hostile_store.saved_views.save("library", NAME[:60], f"method={NAME}")
    hostile_store.trash.put(runs[-1:])
    assert_is_text(open_page("library", runs=",".join(map(str, runs))))
    assert_is_text(open_page("library", method=NAME, dataset=NAME, status=NAME))


@pytest.mark.slow
def test_papers_and_learn_show_addresses_as_text(empty_store: Store) -> None:
    assert_is_text(open_page("papers", preset=NAME))
    assert_is_text(open_page("learn", story=NAME))


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FedAvg as a plugin in which every text is NAME."""
    shipped = (ROOT / "engine" / "algorithms" / "fedavg.py").read_text(encoding="utf-8")
    code = shipped[shipped.index("from dataclasses") :]
    code = code.replace('"SGD steps of each client on its copy of w before use; 0 uses w itself."', "NAME, title=NAME")
    registered = re.compile(r"ALGORITHMS\.register\(.*?style=", re.DOTALL)
    code = registered.sub('ALGORITHMS.register("evil", title=NAME, paper=NAME, family=NAME, style=', code)
    paragraphs = [f"Evil: {NAME}", NAME, *(f"{label}: {NAME}" for label in LABELS), NAME]
    code = code.replace("\n\nclass Hparams", f"\nNAME = {NAME!r}\n\n\nclass Hparams", 1)
    (tmp_path / "evil.py").write_text(f"{chr(10).join(['__doc__ = ' + repr(chr(10).join(paragraphs)), code])}")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))


@pytest.mark.slow
def test_the_pages_show_the_texts_of_a_plugin_as_text(plugin: None, empty_store: Store) -> None:
    assert ALGORITHMS.get("evil").family == NAME
    for page in (open_page("handbook", find="evil"), open_page("handbook", method="evil")):
        assert_is_text(page, may_cite=True)
        assert any("evil" in h.proto.body for h in page.get("html"))
    assert_is_text(open_page("setup", config=pack_config(DIGITS | {"algorithms": ["evil"], "seeds": [0]})))


def test_a_label_cannot_put_a_link_into_a_figure() -> None:
    link = f'<a href="http://{HOST}">x</a>'
    figure = go.Figure(
        go.Scatter(
            x=[1, 2],
            y=[1, 2],
            name=link,
            text=["<b>1</b>", f"ρ<0.5 {link}"],
            hovertemplate=f"{link}<br>%{{x}}<extra></extra>",
        )
    )
    figure.update_layout(title_text=link, annotations=[{"text": link}], xaxis={"tickvals": [1], "ticktext": [link]})
    trace = figure_text.without_links(figure).data[0]
    shown = f'&lt;a href="http://{HOST}">x&lt;/a>'
    assert trace.name == figure.layout.title.text == figure.layout.annotations[0].text == shown
    assert list(trace.text) == ["<b>1</b>", f"ρ&lt;0.5 {shown}"] and list(trace.x) == [1, 2]
    assert trace.hovertemplate == f"{shown}<br>%{{x}}<extra></extra>"
    assert list(figure.layout.xaxis.ticktext) == [shown]
