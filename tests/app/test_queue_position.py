"""The reader's position in the queue for training."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from streamlit.testing.v1 import AppTest

from app.components import queue_position
from app.components.queue_position import sentence
from app.data.turns import TURNS

WAIT_S = 60


def page(is_stopped: bool) -> None:
    """Waits for its turn; is stopped there if ``is_stopped``, as when its reader leaves."""
    import threading

    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    from app.components.queue_position import queue_position
    from app.data.turns import TURNS
    from tests.app.test_queue_position import wait_until_queue_has

    requests = get_script_run_ctx().script_requests

    def stop() -> None:
        wait_until_queue_has(2)
        requests.request_stop()

    if is_stopped:
        threading.Thread(target=stop).start()
    with queue_position(), TURNS.turn():
        st.text("trained")


def training_page() -> None:
    """Trains in its turn until the reader presses something else."""
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    from app.data.turns import TURNS, leave_if_outdated

    with TURNS.turn():
        leave_if_outdated()
        st.text("training")
        get_script_run_ctx().script_requests.request_stop()
        leave_if_outdated()
        raise AssertionError


@contextmanager
def another_turn(until: threading.Event) -> Iterator[None]:
    """A thread that holds the turn until the event."""

    def hold() -> None:
        with TURNS.turn():
            until.wait(WAIT_S)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        wait_until_queue_has(1)
        yield
    finally:
        until.set()
        holder.join(WAIT_S)


def wait_until_queue_has(number: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while len(TURNS) != number:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def opened(*, is_stopped: bool) -> AppTest:
    return AppTest.from_function(page, args=(is_stopped,), default_timeout=WAIT_S).run()


def test_a_page_that_is_stopped_leaves_the_queue() -> None:
    with another_turn(threading.Event()):
        at = opened(is_stopped=True)
        assert len(TURNS) == 1 and not at.text and not at.exception
    assert len(TURNS) == 0


def test_a_page_shows_its_position_until_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    may_end = threading.Event()

    def release(ahead: int) -> str:
        shown.append(ahead)
        may_end.set()
        return sentence(ahead)

    monkeypatch.setattr(queue_position, "sentence", release)
    with another_turn(may_end):
        at = opened(is_stopped=False)
    assert set(shown) == {1}
    assert [text.value for text in at.text] == ["trained"] and not at.get("html")


def test_a_training_ends_when_its_run_of_the_page_is_stopped() -> None:
    at = AppTest.from_function(training_page, default_timeout=WAIT_S).run()
    assert [text.value for text in at.text] == ["training"] and not at.exception
    assert len(TURNS) == 0


@pytest.mark.parametrize(("ahead", "words"), [(1, "1 person is ahead of you."), (3, "3 people are ahead of you.")])
def test_the_position_in_words(ahead: int, words: str) -> None:
    assert sentence(ahead).endswith(words)
