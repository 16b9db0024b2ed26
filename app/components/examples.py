"""The button that loads the example results."""

import streamlit as st

from app.access import permits
from app.actions import exchange
from app.wording import plain
from storage import StorageError


def examples_button() -> None:
    """Loads them and redraws the page, which then shows them."""
    if not exchange.example_files() or permits.refusal("import"):
        return
    if not st.button("Load examples", key="load_examples"):
        return
    try:
        loaded = exchange.load_examples()
    except StorageError as error:
        st.error(plain(str(error)))
        return
    if loaded:
        st.rerun()
    st.info("The examples are archived; unarchive them in the Library.")
