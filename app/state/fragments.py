"""Parts of a page that are drawn again without the rest of it."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import streamlit as st
from streamlit.runtime.scriptrunner import StopException, get_script_run_ctx

from app.wording import plain
from engine.core.errors import PluginBroken
from storage import StorageError

P = ParamSpec("P")


_FAILED = "fragments.failed"  # the whole page could not be drawn because of a fragment


class CannotBeDrawn(StopException):
    """The error of a fragment in a run of the whole page, which ``url_state.page`` raises again.

    Streamlit catches the errors of fragments, except those that stop a run.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def fragment(draw: Callable[P, None], run_every: float | None = None) -> Callable[P, None]:
    """``st.fragment`` that gives the reason if the database or a plugin cannot be read.

    Drawn alone, it shows the reason in its place, with a button unless a timer draws it again. In a run of the whole
    page it raises CannotBeDrawn. Once a timer then draws it without an error, the page runs again.
    """

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        is_alone = _is_drawn_alone()
        try:
            draw(*args, **kwargs)
        except (StorageError, PluginBroken) as error:
            if not is_alone:
                st.session_state[_FAILED] = True
                raise CannotBeDrawn(error) from error
            if run_every:
                st.caption(plain(str(error)))
            else:
                st.warning(plain(str(error)))
                st.button("Try again", key=f"try_again_{draw.__module__}.{draw.__qualname__}")
        else:
            if is_alone and st.session_state.get(_FAILED):
                st.rerun()

    return st.fragment(drawn, run_every=run_every)  # noqa: TID251


def begin_page() -> None:
    """Call it when the whole page runs, before its fragments."""
    st.session_state.pop(_FAILED, None)


def _is_drawn_alone() -> bool:
    context = get_script_run_ctx()
    return context is not None and bool(context.fragment_ids_this_run)
