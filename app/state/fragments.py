"""Parts of a page that are drawn again without the rest of it."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import streamlit as st

from app.wording import plain
from engine.core.errors import PluginBroken
from storage import StorageError

P = ParamSpec("P")


def fragment(draw: Callable[P, None], run_every: float | None = None) -> Callable[P, None]:
    """``st.fragment`` that shows why it cannot be drawn if the database or a plugin cannot be read.

    Streamlit catches errors within a fragment, so they do not reach ``app/main.py``.
    """

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            draw(*args, **kwargs)
        except (StorageError, PluginBroken) as error:
            st.warning(plain(str(error)))

    return st.fragment(drawn, run_every=run_every)
