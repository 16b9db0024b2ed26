"""Records what a page shows for its report: its figures as currently configured, under their headings.

A page that offers a report calls ``begin()``; from then on every chart that it draws is recorded, and a chart that is
redrawn replaces its earlier version. Another page starts with an empty record.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import urlencode

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.data.column_heads import Heads
from app.state import url_state

_KEY = "shown"


@dataclass(frozen=True)
class Shown:
    """A figure with its numbers and texts; ``section`` is the heading above it."""

    figure: go.Figure
    table: pd.DataFrame
    alt: str
    title: str | None
    caption: str | None
    section: str = ""
    heads: Heads = field(default_factory=dict)


@dataclass
class Board:
    """All charts shown, by key, in order of appearance; and the page's address at that time."""

    charts: dict[str, Shown]
    section: str = ""
    address: str = ""

    def sections(self) -> dict[str, list[Shown]]:
        """Heading -> its charts."""
        found: dict[str, list[Shown]] = {}
        for one in self.charts.values():
            found.setdefault(one.section, []).append(one)
        return found


def begin() -> Board:
    """Called by a page before it draws."""
    board = Board({})
    _state()[_KEY] = board
    return board


def forget() -> None:
    """Called by the shell before any page."""
    _state().pop(_KEY, None)


def begin_section(heading: str) -> None:
    if (board := _board()) is not None:
        board.section = heading


def keep(key: str, one: Shown) -> None:
    """A redrawn chart keeps its position and heading: a panel can be redrawn without the page."""
    if (board := _board()) is not None:
        known = board.charts.get(key)
        board.address = f"{st.context.url or ''}?{urlencode(url_state.address())}"
        board.charts[key] = replace(one, section=known.section if known else board.section)


def _board() -> Board | None:
    return cast("Board | None", _state().get(_KEY))


def _state() -> MutableMapping[str | int, object]:
    return cast("MutableMapping[str | int, object]", st.session_state)
