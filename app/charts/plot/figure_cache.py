"""Figures and tables cached by their numbers. Never modify one."""

import hashlib
from collections.abc import Callable, Hashable
from typing import ParamSpec

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts.plot.palette import is_dark, is_presenting
from app.data import read_cache

FIGURES, COMPARISONS = 48, 8  # how many are cached
P = ParamSpec("P")


def figure(draw: Callable[P, go.Figure], *args: P.args, **kwargs: P.kwargs) -> go.Figure:
    """The figure that ``draw`` makes of these numbers, in the reader's theme."""
    what = hashlib.sha256(f"{draw.__module__}.{draw.__qualname__}".encode())
    for name, value in [*enumerate(args), *sorted(kwargs.items())]:
        what.update(f"\0{name}=".encode())
        what.update(_digest(value) if isinstance(value, pd.DataFrame) else repr(value).encode())
    return _figure(what.hexdigest(), is_dark(), is_presenting(), lambda: draw(*args, **kwargs))


@read_cache.cached(COMPARISONS)
def tables(url: str, of: Hashable, version: Hashable) -> dict[object, object]:
    """The cache for the tables of one comparison, until its runs change."""
    return {}


@st.cache_resource(show_spinner=False, max_entries=FIGURES)
def _figure(what: str, is_dark: bool, is_presenting: bool, _draw: Callable[[], go.Figure]) -> go.Figure:
    return _draw()


def _digest(table: pd.DataFrame) -> bytes:
    names = repr([*zip(table.columns, table.dtypes, strict=True)]).encode()
    return names + pd.util.hash_pandas_object(table).to_numpy().tobytes()
