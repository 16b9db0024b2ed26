"""Turns: one computation at a time, first come, first served."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.data import once, turns
from app.data.once import Once
from app.data.turns import Turns, shown_by

WAIT_S = 60


class _Left(BaseException):
    """Stands for Streamlit's StopException."""


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.setattr(turns, "POLL_S", 0.01)
    return Turns()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_turns_are_taken_in_the_order_of_arrival(queue: Turns, pool: ThreadPoolExecutor) -> None:
    order: list[int] = []

    def compute(number: int) -> None:
        with queue.turn():
            order.append(number)

    with queue.turn():
        waiting = []
        for number in range(5):
            waiting.append(pool.submit(compute, number))
            until(lambda: len(queue) == 1 + len(waiting))
    for one in waiting:
        one.result(WAIT_S)
    assert order == [0, 1, 2, 3, 4] and len(queue) == 0


def test_one_thread_computes_at_a_time(queue: Turns, pool: ThreadPoolExecutor) -> None:
    inside: list[int] = []

    def compute() -> int:
        with queue.turn():
            inside.append(1)
            most = len(inside)
            time.sleep(0)
            inside.pop()
            return most

    assert {one.result(WAIT_S) for one in [pool.submit(compute) for _ in range(200)]} == {1}


def test_a_wait_shows_how_many_are_ahead(queue: Turns, pool: ThreadPoolExecutor) -> None:
    seen: list[int] = []

    def compute() -> None:
        with shown_by(seen.append), queue.turn():
            pass

    def hold(may_end: threading.Event) -> None:
        with queue.turn():
            assert may_end.wait(WAIT_S)

    may_end = [threading.Event(), threading.Event()]
    for number, event in enumerate(may_end, 1):
        pool.submit(hold, event)
        until(lambda number=number: len(queue) == number)
    waiting = pool.submit(compute)
    until(lambda: seen[-1:] == [2])
    may_end[0].set()
    until(lambda: seen[-1:] == [1])
    may_end[1].set()
    waiting.result(WAIT_S)
    assert seen[-1] == 0 and seen == sorted(seen, reverse=True)


def test_a_turn_that_is_free_shows_no_wait(queue: Turns) -> None:
    seen: list[int] = []
    with shown_by(seen.append), queue.turn():
        assert len(queue) == 1
    assert not seen


def test_who_leaves_the_queue_or_fails_in_a_turn_keeps_no_place(queue: Turns, pool: ThreadPoolExecutor) -> None:
    def leave(_: int) -> None:
        raise _Left

    def compute() -> None:
        with shown_by(leave), queue.turn():
            raise AssertionError

    with queue.turn():
        with pytest.raises(_Left):
            pool.submit(compute).result(WAIT_S)
        assert len(queue) == 1
    with pytest.raises(_Left), queue.turn():
        raise _Left
    assert len(queue) == 0


def test_a_value_is_computed_once_for_all_readers(
    queue: Turns, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "TURNS", queue)
    computed: list[int] = []
    value = Once(lambda: computed.append(1) or "value")
    with queue.turn():
        readers = [pool.submit(value.get) for _ in range(6)]
        until(lambda: len(queue) == 7)
    assert {reader.result(WAIT_S) for reader in readers} == {"value"} and computed == [1]


def test_a_value_that_fails_is_computed_anew() -> None:
    results = iter([ZeroDivisionError("first"), "second"])

    def compute() -> str:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    value = Once(compute)
    with pytest.raises(ZeroDivisionError):
        value.get()
    assert value.get() == "second"
