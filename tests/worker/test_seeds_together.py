"""Workers train seeds together: each run keeps its own rows, status and checkpoints."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
import torch

from engine.core.lockstep import Lockstep
from engine.training import joint_seeds
from engine.worker import Dispatcher, LocalExecutor, Ticket
from engine.worker.dispatcher import STOP_GRACE_S
from engine.worker.executor import Key
from engine.worker.process import answer_all
from engine.worker.recorder import Recorder
from engine.worker.session import Session
from engine.worker.slots import Slot
from engine.worker.work_queue import DIED, RunClaims
from storage import Limits, Store, Transient
from tests.support.rounding import equal_to_rounding
from tests.worker.engines import PATIENCE_S, eventually
from tests.worker.fakes import Clock, FakeExecutor
from tests.worker.samples import Undisturbed, claim, numbers, queue, rows
from tests.worker.stopping import Stopping

SEEDS = [0, 1, 2]
TOGETHER: dict[str, Any] = {"seeds": SEEDS, "seeds_together": 8}
Undisturbed_of = Callable[..., Undisturbed]


def tickets_of(store: Store) -> list[Ticket]:
    return [claim(store) for _ in SEEDS]


def compute_all(store: Store, tickets: Sequence[Ticket]) -> dict[Key, str | None]:
    answers: dict[Key, str | None] = {}
    answer_all(tickets, Slot(1), 1.0, lambda answer: answers.update([answer]))
    return answers


def statuses(store: Store, run_ids: Sequence[int]) -> list[str]:
    return [store.queue.get(run_id).status for run_id in run_ids]


@pytest.fixture
def joint(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each joint local training had."""
    sizes: list[int] = []
    train_all = joint_seeds._train_all

    def counted(runs: Sequence[Any]) -> list[Any]:
        sizes.append(len(runs))
        return train_all(runs)

    monkeypatch.setattr(joint_seeds, "_train_all", counted)
    return sizes


@pytest.mark.slow
def test_runs_that_are_trained_together_store_what_each_stores_alone(
    store: Store, undisturbed_run: Undisturbed_of, joint: list[int]
) -> None:
    run_ids = queue(store, **TOGETHER)
    answers = compute_all(store, tickets_of(store))
    assert answers == {("run", run_id): None for run_id in run_ids}
    assert statuses(store, run_ids) == ["done"] * 3 and joint and set(joint) == {3}
    for seed, run_id in zip(SEEDS, run_ids, strict=True):
        alone = undisturbed_run(seeds__0=seed)
        assert equal_to_rounding(numbers(rows(store, run_id)), numbers(alone.rows))
        assert equal_to_rounding(store.queue.get(run_id).summary, alone.run.summary)


@pytest.mark.slow
def test_a_run_that_fails_or_is_cancelled_leaves_the_others_to_finish(
    store: Store, undisturbed_run: Undisturbed_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, cancelled, done = queue(store, **TOGETHER)
    add, store_models = Recorder.add, Session._store_models

    def adding(self: Recorder, result: Any, *rest: Any) -> None:
        add(self, result, *rest)
        if self.run_id == failing and result.round == 3:
            store.queue.request([cancelled], "cancel")

    def storing(self: Session, simulation: Any) -> None:
        if self.ticket.run_id == failing:
            raise ValueError("broken")
        store_models(self, simulation)

    monkeypatch.setattr(Recorder, "add", adding)
    monkeypatch.setattr(Session, "_store_models", storing)
    monkeypatch.setattr("engine.worker.recorder.WRITE_S", 0.0)
    compute_all(store, tickets_of(store))
    assert statuses(store, [failing, cancelled, done]) == ["failed", "cancelled", "done"]
    assert 3 <= store.queue.get(cancelled).round < 6
    assert equal_to_rounding(numbers(rows(store, done)), numbers(undisturbed_run(seeds__0=2).rows))


@pytest.mark.slow
def test_a_run_continues_from_its_checkpoint_beside_runs_that_begin(
    store: Store, undisturbed_run: Undisturbed_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ids = queue(store, **TOGETHER)
    add = Recorder.add

    def adding(self: Recorder, result: Any, *rest: Any) -> None:
        add(self, result, *rest)
        if result.round == 2:
            store.queue.request(run_ids[:1], "pause")

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "add", adding)
        patch.setattr("engine.worker.recorder.WRITE_S", 0.0)
        compute_all(store, [claim(store)])
    assert statuses(store, run_ids) == ["paused", "queued", "queued"]
    store.queue.resume(run_ids[:1])
    compute_all(store, tickets_of(store))
    for seed, run_id in zip(SEEDS, run_ids, strict=True):
        assert equal_to_rounding(numbers(rows(store, run_id)), numbers(undisturbed_run(seeds__0=seed).rows))


def test_seeds_beside_one_that_cleans_up_for_long_continue(
    store: Store, dispatcher: Dispatcher, executor: FakeExecutor, clock: Clock
) -> None:
    executor.trains_together = True
    run_ids = queue(store, **TOGETHER)
    dispatcher.step()
    first, *_ = tickets = executor.tickets[:]
    store.queue.finish(first.run_id, first.epoch, "done")
    for clock.now in (1.0, 2.0 + STOP_GRACE_S):
        dispatcher.step()
    assert executor.tickets == tickets and statuses(store, run_ids) == ["done", "running", "running"]


def claimed_with_the_first(store: Store, run_ids: Sequence[int] | None = None) -> list[int]:
    return [ticket.run_id for ticket in RunClaims(store, None, run_ids).claim(together=True)]


def test_only_runs_that_differ_in_nothing_but_their_seeds_are_claimed_together(store: Store) -> None:
    ditto, fedavg = (queue(store, **TOGETHER, algorithms=[name]) for name in ("ditto", "fedavg"))
    queue(store, **TOGETHER, algorithms=["ditto"])  # another experiment
    mixed = queue(
        store, **TOGETHER, algorithms=["ditto", {"name": "ditto", "lam": 0.5, "label": "half"}], splits=[0, 1]
    )
    assert claimed_with_the_first(store) == ditto
    assert claimed_with_the_first(store) == fedavg
    assert len(claimed_with_the_first(store)) == 3
    assert [len(claimed_with_the_first(store)) for _ in range(2)] == [6, 6] and len(mixed) == 12


@pytest.mark.parametrize(("most", "claimed"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_at_most_as_many_as_the_option_says_are_claimed_together(store: Store, most: int, claimed: int) -> None:
    queue(store, seeds=SEEDS, seeds_together=most)
    assert len(claimed_with_the_first(store)) == claimed


def test_a_run_whose_worker_died_is_claimed_alone(store: Store) -> None:
    run_ids = queue(store, **TOGETHER)
    store.events.add(run_ids[1], "error", DIED, "killed")
    assert claimed_with_the_first(store) == [run_ids[0], run_ids[2]]
    assert claimed_with_the_first(store) == [run_ids[1]]


def test_the_queries_of_a_claim_do_not_grow_with_the_seeds_that_wait(store: Store) -> None:
    sent, counts = list[str](), list[int]()
    sa.event.listen(store._database.engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    for num_seeds in (4, 40):
        run_ids = queue(store, seeds=list(range(num_seeds)), seeds_together=3)
        sent.clear()
        assert claimed_with_the_first(store, run_ids) == run_ids[:3]
        counts.append(len(sent))
    assert counts[0] == counts[1]


def test_runs_that_the_dispatcher_does_not_own_stay_queued(store: Store) -> None:
    run_ids = queue(store, **TOGETHER)
    assert claimed_with_the_first(store, run_ids[:2]) == run_ids[:2]
    assert statuses(store, run_ids) == ["running", "running", "queued"]


def test_a_limit_of_running_runs_holds_for_runs_that_are_claimed_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.worker.work_queue.owner_limits", lambda: Limits(running=2))
    run_ids = queue(store, **TOGETHER, owner="ada")
    assert claimed_with_the_first(store) == run_ids[:2]


@pytest.mark.slow
def test_gpu_memory_is_released_once_all_runs_have_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    groups, kept_then = list[Lockstep](), list[int]()
    begin = Lockstep.__init__
    monkeypatch.setattr(Lockstep, "__init__", lambda self: (groups.append(self), begin(self))[1])
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: kept_then.append(len(groups[0].kept)))
    queue(store, **TOGETHER)
    answer_all(tickets_of(store), Slot(1, 0), 1.0, lambda answer: None)
    assert kept_then == [0]  # what the runs shared is released, too


class OneSlot(FakeExecutor):
    """Trains any number of runs together in its only slot."""

    def __init__(self, trains_together: bool) -> None:
        super().__init__()
        self.trains_together, self.groups = trains_together, list[list[int]]()

    @property
    def free(self) -> int:
        return not self.tickets

    def submit(self, *tickets: Any) -> None:
        super().submit(*tickets)
        self.groups.append([ticket.run_id for ticket in tickets])


@pytest.mark.parametrize("trains_together", [False, True])
def test_the_dispatcher_submits_seeds_together_where_the_executor_trains_them_so(
    store: Store, trains_together: bool
) -> None:
    run_ids, executor = queue(store, **TOGETHER), OneSlot(trains_together)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step(0)
        assert executor.groups == [run_ids if trains_together else run_ids[:1]]
        assert executor.run_ids == executor.groups[0]


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("is_stored", [True, False])
def test_a_claim_whose_response_is_lost_is_repaired(
    store: Store, monkeypatch: pytest.MonkeyPatch, lost: int, is_stored: bool
) -> None:
    run_ids, executor = queue(store, **TOGETHER), OneSlot(trains_together=True)
    claim_run, calls = store.queue.claim, itertools.count(1)

    def claiming(*arguments: Any) -> Any:
        if next(calls) == lost:
            if is_stored:
                claim_run(*arguments)
            raise Transient("lost")
        return claim_run(*arguments)

    monkeypatch.setattr(store.queue, "claim", claiming)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        with pytest.raises(Transient):
            dispatcher.step(0)
        dispatcher.step(0)
        assert executor.groups == [run_ids]


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.slow
def test_after_a_worker_is_killed_its_runs_resume_one_by_one_and_equal_undisturbed_ones(
    store: Store, undisturbed_run: Undisturbed_of, stopping: Stopping
) -> None:
    run_ids = queue(store, **TOGETHER | {"seeds": [0, 1]})
    with trained_together(store, stopping) as (dispatcher, executor, worker):
        assert executor.machines()[0].running == 2 and executor.free == 0
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: dispatcher.step(0.02) or store.queue.get(run_ids[0]).epoch == 2)
        assert executor.machines()[0].running == 1
        dispatcher.run(threading.Event(), until_idle=True)
    for seed, run_id in enumerate(run_ids):
        assert equal_to_rounding(numbers(rows(store, run_id)), numbers(undisturbed_run(seeds__0=seed).rows))
        assert [event.kind for event in store.events.list(run_id)] == ["worker-died"]


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.slow
def test_if_one_run_does_not_stop_the_other_resumes_without_counting_a_death(
    store: Store, undisturbed_run: Undisturbed_of, stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ids = queue(store, **TOGETHER | {"seeds": [0, 1]})
    with trained_together(store, stopping) as (dispatcher, *_):
        store.queue.request(run_ids[:1], "cancel")
        monkeypatch.setattr("engine.worker.dispatcher.STOP_GRACE_S", 0.2)
        dispatcher.run(threading.Event(), until_idle=True)
    assert statuses(store, run_ids) == ["cancelled", "done"]
    assert equal_to_rounding(numbers(rows(store, run_ids[1])), numbers(undisturbed_run(seeds__0=1).rows))
    assert [event.kind for event in store.events.list(run_ids[1])] == ["worker-refused"]


@contextmanager
def trained_together(store: Store, stopping: Stopping) -> Iterator[tuple[Dispatcher, LocalExecutor, int]]:
    """A dispatcher, its executor, and its only worker's process, stopped when both of its runs have a checkpoint."""
    stopping.ask("trained", 7)
    executor = LocalExecutor(slots=1, trains_together=True)
    with Dispatcher(store, executor, store.try_dispatcher_lock()) as dispatcher:
        dispatcher.step()
        (worker,) = eventually(lambda: stopping.stopped)
        yield dispatcher, executor, worker
