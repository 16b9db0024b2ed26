"""A figure that is updated in place: its points move smoothly, and zoom and hover are kept."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
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
RESULT = "result"
"""The ``meta`` of a trace, and the ``name`` of an annotation, that show the result to predict."""
_are_hidden = ContextVar("are_results_hidden", default=False)


@dataclass(frozen=True)
class Picture:
    """A figure with the values in it, as ``moving_figure`` takes it."""

    figure: Mapping[str, Any]
    moves: Moves
    key: str
    alt: str
    name: str
    title: str = ""
    now: str = ""  # the state of the run, in a line
    note: str = ""  # what the page says elsewhere: for a slide and a handout

    def draw(self) -> None:
        moving_figure(self.figure, self.moves, key=self.key, alt=self.alt, name=self.name)

    def plot(self) -> go.Figure:
        """An ordinary figure."""
        return _whole(without_results(self.figure) if are_results_hidden() else self.figure, self.moves)


@contextmanager
def hidden_results(are_hidden: bool) -> Iterator[None]:
    """Figures in this block are drawn without their results."""
    token = _are_hidden.set(are_hidden)
    try:
        yield
    finally:
        _are_hidden.reset(token)


def are_results_hidden() -> bool:
    return _are_hidden.get()


def without_results(figure: Mapping[str, Any]) -> dict[str, Any]:
    """``figure`` without what is marked as ``RESULT``; moving traces are kept."""
    notes = figure["layout"].get("annotations", [])
    layout = {**figure["layout"], "annotations": [note for note in notes if note.get("name") != RESULT]}
    traces = [trace | {"visible": False} if trace.get("meta") == RESULT else trace for trace in figure["data"]]
    return {**figure, "data": traces, "layout": layout}


def moving_figure(figure: Mapping[str, Any], moves: Moves, *, key: str, alt: str, name: str) -> None:
    """Draws a ``figure`` (see ``still``) with ``moves`` put into its traces; points glide to their new positions.

    If this process does not serve the drawing library, it is an ordinary figure without animation. On a slide it is as
    high as the style sheet says.
    """
    if are_results_hidden():
        figure, alt = _to_come(figure, moves), f"{name.replace('-', ' ')}; the results are hidden until the run ends"
    with st.container(key=f"figure_{key}"):
        if not endpoints.are_served:
            st.plotly_chart(_whole(figure, moves), theme=None, key=key, alt=alt, config=page.modebar(name))
            return
        _component()(
            key=key,
            data={
                "figure": _of_any_height(figure) if palette.is_presenting() else figure,
                "moves": moves,
                "alt": alt,
                "config": page.modebar(name),
                "glide_ms": GLIDE_MS,
                "plotly": endpoints.LIBRARY,
            },
            height="content" if palette.is_presenting() else figure["layout"]["height"],
        )


def _whole(figure: Mapping[str, Any], moves: Moves) -> go.Figure:
    return go.Figure(figure).for_each_trace(lambda trace: trace.update(moves.get(trace.name, {})))


def _to_come(figure: Mapping[str, Any], moves: Moves) -> dict[str, Any]:
    """``figure`` without its results, and a line that says so if nothing else is drawn."""
    figure = without_results(figure)
    if any(_is_drawn(trace | moves.get(trace.get("name", ""), {})) for trace in figure["data"]):
        return figure
    note = {
        "text": "results appear when this run ends",
        "xref": "paper",
        "yref": "paper",
        "x": 0.5,
        "y": 0.5,
        "showarrow": False,
        "font": {"color": palette.theme().muted},
        "bgcolor": palette.theme().paper,  # or a line through the middle strikes it out
    }
    layout = {**figure["layout"], "annotations": [*figure["layout"]["annotations"], note]}
    return {**figure, "layout": layout}


def _is_drawn(trace: Mapping[str, Any]) -> bool:
    """Whether the trace has a point, or is a picture."""
    points = trace.get("x", ())
    has_points = "bdata" in points if isinstance(points, Mapping) else any(x is not None for x in points)
    return trace.get("visible") is not False and (has_points or "z" in trace or "source" in trace)


def _of_any_height(figure: Mapping[str, Any]) -> dict[str, Any]:
    return {**figure, "layout": {name: value for name, value in figure["layout"].items() if name != "height"}}


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
    html = '<div class="moving" role="figure"></div>'
    return st.components.v2.component("fedscape_moving_figure", html=html, js=js, isolate_styles=False)
