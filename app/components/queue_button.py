"""The button that queues runs."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.access import permits
from app.wording import lines, plain
from engine.core.errors import FedscapeError, InvalidConfig
from storage import StorageError

T = TypeVar("T")


@dataclass
class _Press:
    """The latest press. ``is_answered`` changes without access to the session, where a run may be stopped."""

    is_answered: bool = False


def queue_button(
    label: str,
    key: str,
    queue: Callable[[], T],
    *,
    doing: str = "",
    width: Literal["stretch", "content"] = "stretch",
    is_disabled: bool = False,
    notice: DeltaGenerator | None = None,
) -> T | None:
    """Draw a button. In the run of the page in which it was pressed, return what ``queue`` returns.

    A spinner says ``doing`` meanwhile. Errors are shown. Another press may stop ``queue``: then the next run says in
    ``notice``, by default below the button, that nothing was queued.
    """
    refused, state = permits.refusal("queue"), f"press.{key}"
    is_pressed = st.button(
        label,
        type="primary",
        key=key,
        width=width,
        disabled=is_disabled or refused is not None,
        help=refused,
        on_click=_begin,
        args=(state,),
    )
    press: _Press = st.session_state.get(state) or _Press(is_answered=True)
    if is_pressed:
        with st.spinner(doing) if doing else nullcontext():
            return _answer(press, queue)
    if not press.is_answered:
        with notice or nullcontext():
            st.warning(f"Nothing was queued: something else was pressed right after “{label}”. Press it again.")
    press.is_answered = True
    return None


def _begin(state: str) -> None:
    st.session_state[state] = _Press()


def _answer(press: _Press, queue: Callable[[], T]) -> T | None:
    result = None
    try:
        result = queue()
    except InvalidConfig as error:
        st.error(lines(error.problems))
    except (FedscapeError, StorageError) as error:
        st.error(plain(str(error)))
    press.is_answered = True
    return result
