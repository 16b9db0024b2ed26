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


class CannotBeDrawn(StopException):
    """The reason why a fragment in a run of the whole page cannot be drawn, for ``app/main.py``.

    Streamlit catches the errors of fragments, but for those that stop a run.
    """


def fragment(draw: Callable[P, None], run_every: float | None = None) -> Callable[P, None]:
    """``st.fragment`` that gives the reason if the database or a plugin cannot be read.

    Drawn alone, it shows the reason in its place. Raises CannotBeDrawn if the whole page runs.
    """

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            draw(*args, **kwargs)
        except (StorageError, PluginBroken) as error:
            if not _is_drawn_alone():
                raise CannotBeDrawn(str(error)) from error
            show = st.caption if run_every else st.warning  # a timer tries again
            show(plain(str(error)))

    return st.fragment(drawn, run_every=run_every)  # noqa: TID251


def _is_drawn_alone() -> bool:
    context = get_script_run_ctx()
    return context is not None and bool(context.fragment_ids_this_run)
