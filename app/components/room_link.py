"""The connection of a page to a room: the browser polls it, and runs the page again when the room has changed."""

from typing import Any

import streamlit as st

from app import endpoints
from app.components import drawing_library

HTML = '<p class="room-counts status"></p>'


def room_link(code: str, *, version: int | None, text: str, wait_ms: int) -> None:
    """Show the counts in ``text``, and keep them up to date unless ``text`` is empty.

    The page runs again when the room is closed or has another version than ``version``; for None, only when closed.
    """
    address = f"{endpoints.ROOM}?code={code}" if endpoints.are_served else None
    data = {"address": address, "version": version, "text": text, "wait_ms": wait_ms}
    _component()(key="room_link", data=data, width="content", on_moved_change=lambda: None)


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    js = drawing_library.script("room_link.js")
    return st.components.v2.component("fedscape_room_link", html=HTML, js=js, isolate_styles=False)
