"""Being built."""

import streamlit as st

from app.inside.view import RunView


def panel(view: RunView) -> None:
    st.caption(view.name)
