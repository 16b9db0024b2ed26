"""A line that screen readers announce when it changes."""

from typing import Any

import streamlit as st

HTML = '<p class="status" role="status"></p>'
JS = """export default ({ data, parentElement }) => {
  const line = parentElement.querySelector(".status"); // the same element each time, or nothing is announced
  if (line.textContent !== data.text) line.textContent = data.text;
};"""


def status(text: str, *, key: str) -> None:
    _component()(key=key, data={"text": text}, width="content")


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    return st.components.v2.component("fedscape_status", html=HTML, js=JS, isolate_styles=False)
