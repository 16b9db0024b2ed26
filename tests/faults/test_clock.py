"""A clock that is set forward or back while runs are computed: it decides nothing, and the screen soon forgets it."""

import datetime as dt
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import storage.models
from engine.core.results import RoundResult
from engine.worker import Dispatcher
from engine.worker import recorder as recording
from engine.worker.process import work_on
from engine.worker.recorder import Recorder
from storage import Store
from tests.worker.fakes import Clock, FakeExecutor
from tests.worker.samples import claim, compute, queue, rows

JUMPS = [timedelta(hours=-1), timedelta(hours=1), timedelta(days=-1), timedelta(days=1)]
SAID = ["an hour back", "an hour forward", "a day back", "a day forward"]
of_the_clock = pytest.mark.parametrize("jump", JUMPS, ids=SAID)


class WallClock:
    """What the machine takes for the time."""

    ahead = timedelta(0)

    def now(self, zone: dt.tzinfo) -> dt.datetime:
        return dt.datetime.now(zone) + self.ahead


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    wall = WallClock()
    monkeypatch.setattr(storage.models, "datetime", wall)
    return wall


@pytest.mark.parametrize("jump", JUMPS[1::2], ids=["an hour to and fro", "a day to and fro"])
def test_a_run_equals_one_of_an_orderly_clock(store: Store, wall: WallClock, monkeypatch, jump):
    def set_clock(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
        wall.ahead += jump * (-1) ** recorder.round
        add(recorder, *args, **kwargs)

    whole = compute(store)
    queue(store)
    ticket = claim(store)
    add = Recorder.add
    monkeypatch.setattr(Recorder, "add", set_clock)
    monkeypatch.setattr(recording, "WRITE_S", 0.0)
    work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.summary) == ("done", whole.summary)
    assert rows(store, run.id) == rows(store, whole.id)


@of_the_clock
def test_runs_are_claimed_in_the_order_in_which_they_were_queued(store: Store, wall: WallClock, jump):
    first = queue(store)
    wall.ahead += jump
    second = queue(store)
    assert [claim(store).run_id, claim(store).run_id] == first + second


@of_the_clock
def test_what_is_left_running_is_taken_up_at_once_whatever_its_last_heartbeat(store: Store, wall: WallClock, jump):
    queue(store)
    left = claim(store)
    wall.ahead += jump
    executor = FakeExecutor()
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert [(ticket.run_id, ticket.epoch) for ticket in executor.tickets] == [(left.run_id, 2)]


@of_the_clock
def test_a_run_that_gets_on_is_neither_killed_nor_queued_again(store: Store, wall: WallClock, jump):
    queue(store)
    executor, clock = FakeExecutor(), Clock()
    with Dispatcher(store, executor, store.try_dispatcher_lock(), clock=clock) as dispatcher:
        dispatcher.step()
        wall.ahead += jump
        for clock.now in (3.0, 6.0, 9.0):
            dispatcher.step()
        assert [ticket.epoch for ticket in executor.tickets] == [1]


@of_the_clock
def test_the_engine_is_seen_with_its_next_beat_and_gone_soon_after_its_last(store: Store, wall: WallClock, jump):
    def beat() -> None:
        store.engines.heartbeat(host="here", pid=7, device="cpu", slots=1, running=0)

    beat()
    wall.ahead += jump
    assert store.engines.list() == []
    beat()
    assert [engine.pid for engine in store.engines.list()] == [7]


@of_the_clock
def test_the_time_that_is_left_is_told_by_a_clock_nobody_can_set(store: Store, wall: WallClock, jump):
    queue(store)
    ticket, clock = claim(store), Clock()
    recorder = Recorder(store, ticket.run_id, ticket.epoch, clock)
    for round in range(4):
        clock.now = 3.0 * round
        wall.ahead += jump
        recorder.add(RoundResult(round, np.array([1], np.int32), {}, {}), {})
    assert store.queue.get(ticket.run_id).seconds_per_round == pytest.approx(3.0)


def test_what_was_deleted_just_now_outlasts_a_day_that_the_clock_skips(store: Store, wall: WallClock):
    run_ids = queue(store)
    store.trash.put(run_ids)
    wall.ahead += timedelta(days=1)
    assert store.trash.empty(older_than=timedelta(days=7)) == 0
    store.trash.restore(run_ids)
    assert [run.id for run in store.queue.runs()] == run_ids
