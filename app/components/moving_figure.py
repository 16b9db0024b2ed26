"""A figure that is redrawn in place: its dots move from where they were to where they are, and zoom and hover stay."""

import json
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import streamlit as st

from app import routes
from app.components import page

_HERE = Path(__file__).parent


def moving_figure(fig: go.Figure, *, key: str, alt: str, name: str, glide_ms: int = 0) -> None:
    """Draws ``fig``; when it is drawn again under the same key, its points glide there in ``glide_ms``.

    Where this process serves no drawing library, it is an ordinary figure, which jumps.
    """
    with st.container(key=f"figure_{key}"):
        if not routes.are_served:
            st.plotly_chart(fig, theme=None, key=key, alt=alt, config=page.modebar(name))
            return
        library = f"{routes.PLOTLY}?v={plotly.__version__}"
        _component()(
            key=key,
            data={"figure": json.loads(fig.to_json()), "alt": alt, "config": page.modebar(name), "plotly": library,
                  "glide_ms": glide_ms},
        )  # fmt: skip


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    js = (_HERE / "moving_figure.js").read_text(encoding="utf-8")
    html = '<div class="moving" role="img"></div>'
    return st.components.v2.component("fedscape_moving_figure", html=html, js=js, isolate_styles=False)
