"""Downloads of the figures on screen: PNG for slides, SVG for papers, made in the browser from the current view."""

import re
from typing import Any

import streamlit as st

from app import endpoints
from app.components import drawing_library

HTML = '<div class="pictures"></div>'
WITHOUT_LIBRARY = (
    "The camera above the figure saves it as SVG. For PNG, and for images with title and caption, start the app with "
    "python -m app."
)


def pictures(scope: str, *, key: str, name: str, title: str | None, caption: str | None, alt: str) -> None:
    """Buttons for every figure within ``scope``, a CSS selector.

    The image has the current zoom, colors and background; ``title`` and ``caption`` are written into it, and ``alt``
    goes into the SVG for screen readers. One figure of several is named by its own title.
    """
    if not endpoints.are_served:
        st.caption(WITHOUT_LIBRARY)
        return
    words = {"title": title or "", "caption": caption or "", "alt": alt, "name": name}
    _component()(key=key, data={"figures": f"{scope} .js-plotly-plot", "plotly": endpoints.LIBRARY, **words})


def scope_of(key: str) -> str:
    """The selector of a container or an element with this key."""
    return ".st-key-" + re.sub(r"[^a-zA-Z0-9_-]", "-", key.strip())


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    js = drawing_library.script("download.js")
    return st.components.v2.component("fedscape_download", html=HTML, js=js, isolate_styles=False)
