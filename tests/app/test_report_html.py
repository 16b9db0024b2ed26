"""The report: text is shown and never executed, figures are in order, and both themes are supported."""

import json
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pandas as pd
import plotly.graph_objects as go
import pytest

from app.charts.plot import palette
from app.charts.plot.method_styles import looks
from app.compare import sections
from app.compare.numbers import about
from app.compare.view import View
from app.components.shown import Shown
from app.data import config_fields, queries
from app.data.comparison import methods_of
from app.report import document, html
from app.report.comparison import Comparison, report
from engine.core.registry import ALGORITHMS
from storage import Store

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def shown(rows: int = 2) -> Shown:
    fig = go.Figure(go.Scatter(x=[1, 2], y=[3, 4], name=EVIL, line={"color": palette.LIGHT.ink}))
    return Shown(fig, pd.DataFrame({"name": [EVIL] * rows, "value": [0.5] * rows}), EVIL, EVIL, EVIL, "key", "name")


class Elements(HTMLParser):
    """Collects tags with attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_user_text_is_never_markup() -> None:
    body = [html.section(EVIL, html.figure(shown(), 0)), html.paragraph(EVIL), html.items([EVIL])]
    text = document.document(EVIL, body, [shown()])
    tags = Elements(text).tags
    assert [tag for tag, _ in tags].count("script") == 3
    assert not [1 for tag, attributes in tags if tag == "img" or "onerror" in attributes]
    assert text.count("alert(1)") > 1


def test_links_only_lead_to_web_pages() -> None:
    assert html.link("http://127.0.0.1:8501/compare?experiment=1", "here").startswith("<a href=")
    assert html.link("javascript:alert(1)", "here") == "here"


def test_the_file_loads_nothing_external() -> None:
    text = document.document("t", [html.figure(shown(), 0)], [shown()])
    tags = Elements(text).tags
    assert not [tag for tag, attributes in tags if "src" in attributes or tag == "link"]
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and "default-src 'none'" in policy and "http" not in policy


def test_a_tag_in_a_figure_is_shown_as_text() -> None:
    text = html.figures_data([shown()], {"#000000": "#FFFFFF"})
    stored = json.loads(re.sub(r"</?script[^>]*>", "", text))
    assert stored["pairs"] == [["#000000", "#FFFFFF"]]
    assert stored["figures"][0]["data"][0]["name"] == EVIL.replace("<", "&lt;")


def test_long_tables_are_truncated_with_a_note() -> None:
    text = html.figure(shown(rows=html.MAX_ROWS + 5), 0)
    assert text.count("<tr>") == html.MAX_ROWS + 1 and "5 more rows" in text


def test_every_light_color_has_a_dark_one_and_vice_versa() -> None:
    pairs = palette.pairs()
    assert len(set(pairs.values())) == len(pairs)
    assert all(palette.style_of(name).light in pairs for name in ALGORITHMS.names())
    many = pd.DataFrame({"method": [f"ditto lam={i}" for i in range(20)], "algorithm": "ditto"})
    assert all(look.color in pairs for look in looks(many).values())
    assert all(value in pairs for value in vars(palette.LIGHT).values())


@pytest.mark.slow
def test_the_report_has_the_figures_of_all_sections_with_the_choices_of_the_moment(read_store: Store) -> None:
    view = View(tuple(methods_of(queries.runs(with_partition=True))))
    choices = {"experiment": "1", "section": "cost", "x": "megabytes", "client": "3"}
    text = report(Comparison(view, view, sections.parts, choices, "http://here/compare", "A leads", "By far."))
    figures = [attributes["aria-label"] for _, attributes in Elements(text).tags if attributes.get("role") == "img"]
    assert len(figures) == 8 and "personalized accuracy over megabytes sent, both ways for" in str(figures)
    assert "dots: the chosen clients" in text
    assert "http://here/compare?experiment=1&amp;section=cost&amp;x=megabytes&amp;client=3" in text


@pytest.mark.slow
def test_the_report_has_the_notes_of_the_page(read_store: Store) -> None:
    runs = queries.runs(with_partition=True)
    view = View(tuple(methods_of(runs)), "global")
    absent = ["IFCA, seed 0: failed before its first round (out of memory)."]
    text = report(Comparison(view, view, lambda *_: [], {}, "http://here/compare", "Who?", "A leads.", absent))
    assert all(f"<li>{escape(sentence)}</li>" in text for sentence in [*absent, "LocalTrain has no global model."])
    shipped = replace(view, methods=tuple(methods_of([replace(run, example=True) for run in runs])))
    assert "Example results that ship with Fedscape." in report(
        Comparison(shipped, shipped, lambda *_: [], {}, "http://here/compare", "Who?", "A leads.")
    )


def test_the_report_has_versions_and_run_digests(read_store: Store) -> None:
    runs = queries.runs(with_partition=True)
    view = View(tuple(methods_of(runs)), "personalized", "last", 5)
    text = report(Comparison(view, view, lambda *_: [], {}, "http://here/compare", "Who gains?", "FedAvg leads."))
    assert all(run.digest in text for run in runs) and f"?runs={'%2C'.join(str(run.id) for run in runs)}" in text
    head = text.partition(">Run</th>")[2]
    assert re.findall(r">(\w+)</th>", head)[:3] == ["Method", "Split", "Seed"]
    assert "<td>Device</td><td>cpu</td>" in text and "<td>Duration</td>" not in text
    assert about(view, view.per_run()) in text and escape(config_fields.about(view.methods)) in text
