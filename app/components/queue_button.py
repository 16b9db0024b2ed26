"""The button that queues runs."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import RerunException, StopException

from app.access import permits
from app.state.session import remember
from app.wording import lines, plain
from engine.core.errors import FedscapeError, InvalidConfig
from storage import StorageError

RECENT_S = 60.0  # nobody remembers what was stopped longer ago

T = TypeVar("T")


@dataclass
class _Press:
    """The latest press. It changes without access to the session, where a run may be stopped."""

    label: str
    at: float = field(default_factory=time.monotonic)  # or when ``queue`` was stopped
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
    """Draw the button. Returns the result of ``queue`` in the run in which it was pressed, otherwise None.

    A spinner says ``doing`` meanwhile, and errors are shown. If another press stops ``queue``, the next run says in
    ``notice`` (default: below the button) that nothing was queued.
    """
    refused, state = permits.refusal("queue"), f"press.{key}"
    is_off = is_disabled or refused is not None
    begin: dict[str, Any] = {"on_click": _begin, "args": (state, label)}
    is_pressed = st.button(label, key=key, type="primary", width=width, disabled=is_off, **begin)
    if refused:
        st.caption(refused)
    press: _Press | None = st.session_state.get(state)
    if is_pressed:
        with st.spinner(doing) if doing else nullcontext():
            return _answer(press or _Press(label), queue)
    if press and not press.is_answered:
        if not is_off and time.monotonic() - press.at < RECENT_S:
            with notice or nullcontext():
                st.warning(
                    f"Nothing was queued: something else was pressed before “{press.label}” had finished. "
                    f"To queue, press “{label}”."
                )
        press.is_answered = True
    return None


def _begin(state: str, label: str) -> None:
    remember(state, _Press(label))


def _answer(press: _Press, queue: Callable[[], T]) -> T | None:
    result = None
    try:
        result = queue()
    except InvalidConfig as error:
        st.error(lines(error.problems))
    except (FedscapeError, StorageError) as error:
        st.error(plain(str(error)))
    except (RerunException, StopException):
        press.at = time.monotonic()
        raise
    press.is_answered = True
    return result
