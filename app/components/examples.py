"""The results that come with the product, one click away where there is nothing else to see."""

import streamlit as st

from app.actions import exchange
from app.wording import plain
from storage import StorageError


def examples_button() -> None:
    """Loads them and draws the page again, which then shows them."""
    if not exchange.example_files():
        return
    if not st.button("Load the examples", key="load_examples"):
        return
    try:
        loaded = exchange.load_examples()
    except StorageError as error:
        st.error(plain(str(error)))
        return
    if loaded:
        st.rerun()
    st.info("The examples are in the archive; the Library brings them back.")
