"""A figure that is redrawn in place: its dots move from where they were to where they are, and zoom and hover stay."""

import json
from collections.abc import Mapping
from typing import Any

import plotly
import plotly.graph_objects as go
import streamlit as st

from app import routes
from app.components import page
from app.components.download import script

Moves = Mapping[str, Mapping[str, Any]]
"""New values of a figure's traces, by their names."""


def moving_figure(figure: Mapping[str, Any], moves: Moves, *, key: str, alt: str, name: str, glide_ms: int = 0) -> None:
    """Draws a ``figure`` (see ``still``) with ``moves`` put into its traces; points glide to their next place.

    Where this process serves no drawing library, it is an ordinary figure, which jumps.
    """
    with st.container(key=f"figure_{key}"):
        if not routes.are_served:
            whole = go.Figure(figure).for_each_trace(lambda trace: trace.update(moves.get(trace.name, {})))
            st.plotly_chart(whole, theme=None, key=key, alt=alt, config=page.modebar(name))
            return
        _component()(
            key=key,
            data={"figure": figure, "moves": moves, "alt": alt, "config": page.modebar(name), "glide_ms": glide_ms,
                  "plotly": f"{routes.PLOTLY}?v={plotly.__version__}"},
        )  # fmt: skip


def still(fig: go.Figure) -> dict[str, Any]:
    """What stays while a figure moves, plain, to be kept between its moves."""
    spec: dict[str, Any] = json.loads(fig.to_json())
    return spec


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    js = script("moving_figure.js")
    html = '<div class="moving" role="img"></div>'
    return st.components.v2.component("fedscape_moving_figure", html=html, js=js, isolate_styles=False)
