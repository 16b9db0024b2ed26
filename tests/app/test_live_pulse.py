"""A run is lost if its heartbeat stops changing or its worker is gone, whatever the clocks show."""

import dataclasses
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from app.data import pulse
from app.data.pulse import GONE_AFTER_S, Pulse, silences
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import RunRecord, Store
from tests.app.samples import DIGITS
from tests.worker.fakes import Clock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(empty_store: Store) -> RunRecord:
    empty_store.experiments.create("running", DIGITS, [new_run(parse_experiment(DIGITS).runs()[0])])
    run = empty_store.queue.claim()
    assert run is not None
    return run


@pytest.fixture
def beating(running: RunRecord) -> Callable[[datetime], RunRecord]:
    """The run with a heartbeat at this time."""
    return lambda at: dataclasses.replace(running, heartbeat_at=at)


def test_an_unchanged_heartbeat_is_silence_by_the_local_clock(
    clock: Clock, beating: Callable[[datetime], RunRecord]
) -> None:
    seen = Pulse(clock)
    assert seen.silent_s(beating(NOON), lambda: NOON) == 0
    clock.now += 30
    assert seen.silent_s(beating(NOON), lambda: NOON) == 30
    assert seen.silent_s(beating(NOON + timedelta(seconds=1)), lambda: NOON) == 0


@pytest.mark.parametrize("jump", [HOUR, -HOUR, timedelta(days=1), timedelta(days=-1)])
def test_changing_the_clock_loses_no_run(
    clock: Clock, beating: Callable[[datetime], RunRecord], jump: timedelta
) -> None:
    seen = Pulse(clock)
    seen.silent_s(beating(NOON), lambda: NOON)
    clock.now += 2
    assert seen.silent_s(beating(NOON + jump), lambda: NOON + jump) == 0


def test_a_stopped_run_is_detected_even_with_a_future_heartbeat(
    clock: Clock, beating: Callable[[datetime], RunRecord]
) -> None:
    seen = Pulse(clock)
    assert seen.silent_s(beating(NOON + HOUR), lambda: NOON) == 0
    clock.now += 25
    assert seen.silent_s(beating(NOON + HOUR), lambda: NOON) == 25


def test_a_first_heartbeat_is_compared_with_that_of_the_engine(
    clock: Clock, beating: Callable[[datetime], RunRecord]
) -> None:
    assert Pulse(clock).silent_s(beating(NOON), lambda: NOON + timedelta(seconds=40)) == 40


def test_a_resumed_run_is_no_longer_lost(clock: Clock, beating: Callable[[datetime], RunRecord]) -> None:
    seen = Pulse(clock)
    seen.silent_s(beating(NOON), lambda: NOON)
    clock.now += 30
    again = dataclasses.replace(beating(NOON), epoch=2)
    assert seen.silent_s(again, lambda: NOON) == 0


def test_an_engine_is_missing_until_it_returns(clock: Clock) -> None:
    seen = Pulse(clock)
    assert seen.gone_s(is_alive=False) == 0
    clock.now += 7
    assert seen.gone_s(is_alive=False) == 7
    assert seen.gone_s(is_alive=True) == 0
    clock.now += 7
    assert seen.gone_s(is_alive=False) == 0


def test_without_an_engine_every_running_run_is_lost(
    empty_store: Store, running: RunRecord, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = Pulse(clock)
    monkeypatch.setattr(pulse, "pulse_of", lambda url: watching)
    lock = empty_store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        assert silences(empty_store, [running])[running.id] < GONE_AFTER_S
    silences(empty_store, [running])
    clock.now += GONE_AFTER_S
    assert silences(empty_store, [running]) == {running.id: math.inf}
    assert silences(empty_store, [dataclasses.replace(running, status="done")]) == {}
