"""A clock set forward or back while runs compute: no decision depends on it, and the screen recovers quickly."""

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
JUMP_NAMES = ["an hour back", "an hour forward", "a day back", "a day forward"]
each_jump = pytest.mark.parametrize("jump", JUMPS, ids=JUMP_NAMES)


class WallClock:
    """The machine's clock, which a test can move."""

    ahead = timedelta(0)

    def now(self, zone: dt.tzinfo) -> dt.datetime:
        return dt.datetime.now(zone) + self.ahead


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    wall = WallClock()
    monkeypatch.setattr(storage.models, "datetime", wall)
    return wall


@pytest.mark.parametrize("jump", JUMPS[1::2], ids=["an hour back and forth", "a day back and forth"])
@pytest.mark.slow
def test_a_jumping_clock_does_not_change_results(store: Store, wall: WallClock, monkeypatch, jump):
    def set_clock(recorder: Recorder, *args: Any, **kwargs: Any) -> None:
        wall.ahead += jump * (-1) ** recorder.round
        add(recorder, *args, **kwargs)

    undisturbed = compute(store)
    queue(store)
    ticket = claim(store)
    add = Recorder.add
    monkeypatch.setattr(Recorder, "add", set_clock)
    monkeypatch.setattr(recording, "WRITE_S", 0.0)
    work_on(store, ticket)
    run = store.queue.get(ticket.run_id)
    assert (run.status, run.summary) == ("done", undisturbed.summary)
    assert rows(store, run.id) == rows(store, undisturbed.id)


@each_jump
def test_runs_are_claimed_in_the_order_they_were_queued(store: Store, wall: WallClock, jump):
    first = queue(store)
    wall.ahead += jump
    second = queue(store)
    assert [claim(store).run_id, claim(store).run_id] == first + second


@each_jump
def test_owners_take_turns_after_the_clock_was_set(store: Store, wall: WallClock, jump):
    for owner in ("a", "b"):
        queue(store, owner=owner, seeds=[0, 1, 2])
    order = ""
    for _ in range(6):
        run = store.queue.claim()
        assert run is not None
        order += run.owner
        store.queue.finish(run.id, run.epoch, "done")
        wall.ahead = jump if len(order) < 2 else timedelta(0)
    assert order == "ababab"


@each_jump
def test_abandoned_runs_resume_immediately_after_any_last_heartbeat(store: Store, wall: WallClock, jump):
    queue(store)
    left = claim(store)
    wall.ahead += jump
    executor = FakeExecutor()
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        assert [(ticket.run_id, ticket.epoch) for ticket in executor.tickets] == [(left.run_id, 2)]


@each_jump
def test_a_run_with_progress_is_neither_killed_nor_queued_again(store: Store, wall: WallClock, jump):
    queue(store)
    executor, clock = FakeExecutor(), Clock()
    with Dispatcher(store, executor, store.try_dispatcher_lock(), clock=clock) as dispatcher:
        dispatcher.step()
        wall.ahead += jump
        for clock.now in (3.0, 6.0, 9.0):
            dispatcher.step()
        assert [ticket.epoch for ticket in executor.tickets] == [1]


@each_jump
def test_the_engine_is_seen_again_with_its_next_heartbeat(store: Store, wall: WallClock, jump):
    def beat() -> None:
        store.engines.heartbeat(host="here", pid=7, device="cpu", slots=1, running=0)

    beat()
    wall.ahead += jump
    assert store.engines.list() == []
    beat()
    assert [engine.pid for engine in store.engines.list()] == [7]


@each_jump
def test_the_remaining_time_is_measured_by_a_monotonic_clock(store: Store, wall: WallClock, jump):
    queue(store)
    ticket, clock = claim(store), Clock()
    recorder = Recorder(store, ticket.run_id, ticket.epoch, clock)
    for round in range(4):
        clock.now = 3.0 * round
        wall.ahead += jump
        recorder.add(RoundResult(round, np.array([1], np.int32), {}, {}), {})
    assert store.queue.get(ticket.run_id).seconds_per_round == pytest.approx(3.0)


def test_a_clock_set_a_day_forward_does_not_empty_the_trash(store: Store, wall: WallClock):
    run_ids = queue(store)
    store.trash.put(run_ids)
    wall.ahead += timedelta(days=1)
    assert store.trash.empty(older_than=timedelta(days=7)) == 0
    store.trash.restore(run_ids)
    assert [run.id for run in store.queue.runs()] == run_ids
