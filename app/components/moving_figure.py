"""A figure that is updated in place: its points move smoothly, and zoom and hover are kept."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ParamSpec

import plotly.graph_objects as go
import streamlit as st

from app import endpoints
from app.charts.plot import palette
from app.components import drawing_library, page

GLIDE_MS = 220  # animation time of a point; less than the time between two updates
P = ParamSpec("P")
Moves = Mapping[str, Mapping[str, Any]]
"""New values of a figure's traces, by their names."""


def moving_figure(figure: Mapping[str, Any], moves: Moves, *, key: str, alt: str, name: str) -> None:
    """Draws a ``figure`` (see ``still``) with ``moves`` put into its traces; points glide to their new positions.

    If this process does not serve the drawing library, it is an ordinary figure without animation.
    """
    with st.container(key=f"figure_{key}"):
        if not endpoints.are_served:
            whole = go.Figure(figure).for_each_trace(lambda trace: trace.update(moves.get(trace.name, {})))
            st.plotly_chart(whole, theme=None, key=key, alt=alt, config=page.modebar(name))
            return
        _component()(
            key=key,
            data={
                "figure": figure,
                "moves": moves,
                "alt": alt,
                "config": page.modebar(name),
                "glide_ms": GLIDE_MS,
                "plotly": endpoints.LIBRARY,
            },
        )


def still(draw: Callable[P, go.Figure]) -> Callable[P, dict[str, Any]]:
    """Caches the static part of a figure by its arguments, theme and type size.

    Redrawing it at every move would cost more than the training.
    """

    def cached(*args: P.args, **options: P.kwargs) -> dict[str, Any]:
        what = (draw.__module__, draw.__qualname__, args, options)
        return _drawn(what, palette.is_dark(), palette.is_presenting(), partial(draw, *args, **options))

    return cached


@st.cache_data(show_spinner=False)
def _drawn(what: tuple[object, ...], is_dark: bool, is_presenting: bool, _draw: Callable[[], go.Figure]) -> Any:
    return json.loads(_draw().to_json())


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    js = drawing_library.script("moving_figure.js")
    html = '<div class="moving" role="img"></div>'
    return st.components.v2.component("fedscape_moving_figure", html=html, js=js, isolate_styles=False)
