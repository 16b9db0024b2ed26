"""The session, where another press may stop a run at any access."""

from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import RerunException


def remember(key: str, value: Any) -> None:
    """Set a value, also if another press stops this run here: the next run then finds it."""
    try:
        st.session_state[key] = value
    except RerunException:
        st.session_state[key] = value
        raise
