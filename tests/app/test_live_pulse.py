"""A run is lost when its heartbeat stops changing or its engine is gone, whatever the clocks say."""

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
    """The run with a heartbeat at that time."""
    return lambda at: dataclasses.replace(running, heartbeat_at=at)


def test_a_heartbeat_that_stays_the_same_is_silence_by_our_own_clock(
    clock: Clock, beating: Callable[[datetime], RunRecord]
) -> None:
    seen = Pulse(clock)
    assert seen.silent_s(beating(NOON), lambda: NOON) == 0
    clock.now += 30
    assert seen.silent_s(beating(NOON), lambda: NOON) == 30
    assert seen.silent_s(beating(NOON + timedelta(seconds=1)), lambda: NOON) == 0


@pytest.mark.parametrize("jump", [HOUR, -HOUR, timedelta(days=1), timedelta(days=-1)])
def test_a_clock_that_is_set_while_a_run_gets_on_loses_nobody(
    clock: Clock, beating: Callable[[datetime], RunRecord], jump: timedelta
) -> None:
    seen = Pulse(clock)
    seen.silent_s(beating(NOON), lambda: NOON)
    clock.now += 2
    assert seen.silent_s(beating(NOON + jump), lambda: NOON + jump) == 0


def test_a_run_that_stops_is_noticed_though_its_heartbeat_is_in_the_future(
    clock: Clock, beating: Callable[[datetime], RunRecord]
) -> None:
    seen = Pulse(clock)
    assert seen.silent_s(beating(NOON + HOUR), lambda: NOON) == 0
    clock.now += 25
    assert seen.silent_s(beating(NOON + HOUR), lambda: NOON) == 25


def test_at_first_sight_a_heartbeat_is_compared_with_the_engine_s(
    clock: Clock, beating: Callable[[datetime], RunRecord]
) -> None:
    assert Pulse(clock).silent_s(beating(NOON), lambda: NOON + timedelta(seconds=40)) == 40


def test_a_run_that_is_taken_up_again_is_heard_of(clock: Clock, beating: Callable[[datetime], RunRecord]) -> None:
    seen = Pulse(clock)
    seen.silent_s(beating(NOON), lambda: NOON)
    clock.now += 30
    again = dataclasses.replace(beating(NOON), epoch=2)
    assert seen.silent_s(again, lambda: NOON) == 0


def test_an_engine_is_gone_from_when_it_was_missed_until_it_is_back(clock: Clock) -> None:
    seen = Pulse(clock)
    assert seen.gone_s(is_alive=False) == 0
    clock.now += 7
    assert seen.gone_s(is_alive=False) == 7
    assert seen.gone_s(is_alive=True) == 0
    clock.now += 7
    assert seen.gone_s(is_alive=False) == 0


def test_without_an_engine_every_running_run_is_silent_for_good(
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
