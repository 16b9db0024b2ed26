"""Scrolls to the top of a section of a page when a reader opens another one."""

from pathlib import Path
from typing import Any

import streamlit as st

from app import endpoints


def top_of_section(section: str, bar: str = "") -> None:
    """Drawn inside the sticky bar with the sections: the container of the key ``bar``, above what it replaces.

    Without a bar, the section is the whole page.
    """
    if endpoints.are_served:
        _component()(key=f"{bar or 'page'}_top", data={"section": section, "bar": bar and f".st-key-{bar}"})


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    js = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    return st.components.v2.component("fedscape_top_of_section", html="<i></i>", js=js, isolate_styles=False)
