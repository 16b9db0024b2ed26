"""Turns: the web process trains for one reader at a time, first come, first served."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

POLL_S = 0.25
_show_wait: ContextVar[Callable[[int], None]] = ContextVar("show_wait", default=lambda _: None)
_leave: ContextVar[Callable[[], object]] = ContextVar("leave", default=lambda: None)


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
def shown_by(show: Callable[[int], None], leave: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Waits in this block call ``show`` with the number of threads ahead, and with 0 when they end.

    ``leave`` is what ``leave_if_outdated`` calls in this block. Either may raise when the reader needs no result.
    """
    tokens = _show_wait.set(show), _leave.set(leave)
    try:
        yield
    finally:
        _show_wait.reset(tokens[0])
        _leave.reset(tokens[1])


def leave_if_outdated() -> None:
    """Raises the exception that stops this run of the page if the reader has pressed something else since.

    To be called often in a computation that sends nothing to the page.
    """
    _leave.get()()


TURNS = Turns()
"""Those of this process."""
