"""Names that try to inject images, links, formulas and HTML, and checks of everything that a page sends."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from google.protobuf.message import Message
from streamlit.testing.v1 import AppTest

from app.actions import exchange
from storage import Store
from tests.app.samples import DIGITS, store_experiment

HOST = "evil.test"
NAME = (
    f"![p](http://{HOST}/p.png) [l](//{HOST}) <img src=http://{HOST}/i.png> <a href='http://{HOST}'>a</a> "
    f"https://{HOST} www.{HOST} a@{HOST} $x$ :red[r] <i>i"
)
MARKDOWN = ("body", "label", "help", "text", "content", "caption")
"""Fields that the browser renders as Markdown, in every element except PLAIN."""
PLAIN = ("Text", "Code", "Html", "PlotlyChart", "BidiComponent")
MARKS = ("![", "](", "<", "$", ":red[")
ADDRESSES = (f"://{HOST}", f"www.{HOST}", f"a@{HOST}")
"""Browsers turn these into links even if they are escaped."""
_OWN_LINK = re.compile(r"\]\(/[a-z][^/\s)]*\)")  # to another page of the app, with an encoded address
_OWN_PICTURE = re.compile(r'<img alt="" src="data:image/svg\+xml,(?:(?!evil)[^"<>])*">')  # a card of Papers
_ALLOWED_IN_FIGURES = re.compile(r"</?(?:b|i|br|sub|sup|extra)>")


def assert_is_text(page: AppTest, may_cite: bool = False) -> None:
    """No part of a name is markup anywhere on the page. ``may_cite``: addresses in docstrings are allowed as links."""
    for kind, text in markdown(page):
        bare = _OWN_LINK.sub("", re.sub(r"\\.", "", text))  # without escaped characters
        if "evil" in bare:
            assert not [mark for mark in MARKS if mark in bare], f"{kind}: {text}"
            shown = bare if _OWN_LINK.search(text) else re.sub(r"\\(.)", r"\1", text)
            assert not [address for address in ADDRESSES if address in shown], f"{kind}: {text}"
    for body in html_of(page):
        parser = _Tags()
        parser.feed(_OWN_PICTURE.sub("", body))
        assert "img" not in parser.tags, body
        assert may_cite or all(re.match(r"/[a-z?]|/$|#", address) for address in parser.addresses), body
    for text in figure_texts(page):
        assert not re.search(r"<\s*/?[A-Za-z]", _ALLOWED_IN_FIGURES.sub("", text)), text


def markdown(page: AppTest) -> Iterator[tuple[str, str]]:
    """(kind of element, text)"""
    for element in _elements(page._tree):
        kind = element.DESCRIPTOR.name
        if kind not in PLAIN:
            yield from ((kind, text) for text in _strings(element))


def html_of(page: AppTest) -> list[str]:
    return [str(element.value) for element in page.get("html")]


def figure_texts(page: AppTest) -> Iterator[str]:
    for element in page.get("plotly_chart"):
        yield from _texts(json.loads(element.proto.spec))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for own in value.values() if isinstance(value, dict) else value:
            yield from _texts(own)


def _elements(node: Any) -> Iterator[Message]:
    proto = getattr(node, "proto", None)
    if isinstance(proto, Message):
        yield proto
    for child in getattr(node, "children", {}).values():
        yield from _elements(child)


def _strings(proto: Message) -> Iterator[str]:
    for field, value in proto.ListFields():
        if field.name in MARKDOWN and isinstance(value, str):
            yield value
        elif isinstance(value, Message):
            yield from _strings(value)
        elif field.type == field.TYPE_MESSAGE:
            for own in value:
                if isinstance(own, Message):
                    yield from _strings(own)


def store_hostile(store: Store) -> list[int]:
    """Imports done, failed and diverged runs in which every text is NAME; with clusters and a sweep."""
    labeled = [
        {"name": "fedavg", "label": NAME},
        {"name": "cgpfl", "K": 2, "lam": 12, "label": f"{NAME}2"},
        {"name": "ditto", "label": f"{NAME}3", "sweep": {"lam": [0.1, 1]}},
        {"name": "local_train"},
    ]
    raw = DIGITS | {"name": NAME, "training": {"rounds": 3, "local_steps": 2}, "algorithms": labeled}
    experiment = store_experiment(store, raw)
    document = json.loads(exchange.json_of([run.id for run in store.queue.runs(experiment_ids=[experiment.id])]))
    for run, status in zip(document["runs"], ("failed", "diverged"), strict=False):
        run["status"] = status
    for run in document["runs"]:
        run["provenance"] |= {
            "error": NAME,
            "device": NAME,
            "backend": NAME,
            "code": NAME,
            "warnings": [NAME],
            "extra": {NAME: NAME},
            "versions": {NAME: NAME},
            "dataset_fingerprint": NAME,
        }
        run["partition"] |= {"class_names": [f"{i}{NAME}" for i in range(10)], "notes": [NAME]}
    store.experiments.delete([experiment.id])
    (found,) = exchange.import_bytes("made.json", json.dumps(document).encode()).experiments
    return [run.id for run in store.queue.runs(experiment_ids=[found.id])]


class _Tags(HTMLParser):
    """Collects tags and the addresses in them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "action")]
