"""A part of a page that a timer draws again."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import streamlit as st

from app.state.fragments import fragment

P = ParamSpec("P")
_NUMBER = "timed.number"


def timed(every_s: float | None) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """``fragment(run_every=every_s)`` for a part without controls. Each run of the page gives it another name.

    A timer that was set before a press can fire after it. Under the old name, Streamlit would redraw the part at once
    and could drop the last elements of the page drawn for that press. Timers of names that are gone are ignored.
    """

    def decorate(draw: Callable[P, None]) -> Callable[P, None]:
        @wraps(draw)
        def start(*args: P.args, **kwargs: P.kwargs) -> None:
            @wraps(draw)
            def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
                draw(*args, **kwargs)

            number = st.session_state[_NUMBER] = st.session_state.get(_NUMBER, 0) + 1
            drawn.__qualname__ = f"{draw.__qualname__} {number}"
            fragment(drawn, run_every=every_s)(*args, **kwargs)

        return start

    return decorate
