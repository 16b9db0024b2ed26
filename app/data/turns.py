"""Turns: the web process trains for one reader at a time, first come, first served."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

POLL_S = 0.25
_show_wait: ContextVar[Callable[[int], None]] = ContextVar("show_wait", default=lambda _: None)


class Turns:
    """A queue of threads. The first one has the turn."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[object] = []

    def __len__(self) -> int:
        return len(self._queue)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn and hold it for the block. Not reentrant.

        While the thread waits, the function of ``shown_by`` is called with the number of threads ahead. It may raise
        to leave the queue, as Streamlit's functions do when the reader has left the page.
        """
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        try:
            self._wait(ticket)
            yield
        finally:
            with self._changed:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _wait(self, ticket: object) -> None:
        has_waited, show = False, _show_wait.get()
        while ahead := self._ahead_after_poll(ticket):
            has_waited = True
            show(ahead)
        if has_waited:
            show(0)

    def _ahead_after_poll(self, ticket: object) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._queue[0] is ticket, POLL_S)
            return self._queue.index(ticket)


@contextmanager
def shown_by(show: Callable[[int], None]) -> Iterator[None]:
    """Waits in this block call ``show`` with the number of threads ahead, and with 0 when they end."""
    token = _show_wait.set(show)
    try:
        yield
    finally:
        _show_wait.reset(token)


def leave_if_outdated() -> None:
    """End this run of the page, by an exception, if the reader has pressed something since it began.

    Call it often in a long computation that draws nothing. Outside a page it has no effect.
    """
    if get_script_run_ctx(suppress_warning=True) is not None:
        st.session_state.get("any key")  # Streamlit stops a run at any access to the session's state


TURNS = Turns()
"""The turns of this process."""
