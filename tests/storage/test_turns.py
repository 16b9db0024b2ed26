"""The order of runs of several owners: they take turns by what they have running, and wait at limits."""

import pytest
import sqlalchemy as sa

from storage import Limits, Store
from storage.models import Run
from storage.run_queue import NO_LIMITS
from tests.storage.samples import a_round, new_run


def queue(store: Store, owner: str, number: int) -> list[int]:
    found = store.experiments.create(owner, {}, [new_run(seed) for seed in range(number)], owner=owner)
    return [run.id for run in store.queue.runs(experiment_ids=[found.id], newest_first=False)]


def claimed(store: Store, limits: Limits = NO_LIMITS) -> str:
    """The owners of the runs in the order in which they start, none of which ends."""
    owners = ""
    while (run := store.queue.claim(limits=limits)) is not None:
        owners += run.owner
    return owners


def test_owners_take_turns_in_any_order_of_queueing(store: Store) -> None:
    queue(store, "a", 4)
    queue(store, "b", 2)
    queue(store, "c", 1)
    assert claimed(store) == "abcabaa"


def test_the_queue_is_shown_in_the_order_in_which_it_starts(store: Store) -> None:
    queue(store, "a", 5)
    queue(store, "b", 3)
    for _ in range(3):
        store.queue.claim()
    queue(store, "c", 3)
    shown = "".join(run.owner for run in store.queue.waiting())
    assert shown == claimed(store) == "cbcabcaa"


def test_the_owner_with_fewer_running_runs_is_first(store: Store) -> None:
    queue(store, "a", 4)
    for _ in range(2):
        store.queue.claim()
    queue(store, "b", 3)
    assert claimed(store) == "bbaba"


def test_with_one_slot_owners_alternate_even_if_nothing_else_runs(store: Store) -> None:
    queue(store, "a", 3)
    queue(store, "b", 2)
    order = ""
    while (run := store.queue.claim()) is not None:
        order += run.owner
        store.queue.finish(run.id, run.epoch, "done")
    assert order == "ababa"


def test_priority_applies_only_within_an_owners_runs(store: Store) -> None:
    a, b = queue(store, "a", 3), queue(store, "b", 2)
    store.queue.prioritize([a[2]], 1)
    store.queue.prioritize([b[1]], -1)
    order = [run.id for run in store.queue.waiting()]
    assert order == [a[2], b[0], a[0], b[1], a[1]]


def test_moving_a_run_to_the_front_affects_only_its_owners_runs(store: Store) -> None:
    a, b = queue(store, "a", 2), queue(store, "b", 2)
    store.queue.move([b[1]], "first")
    assert [run.id for run in store.queue.waiting()] == [a[0], b[1], a[1], b[0]]
    with store._database.read() as connection:
        assert connection.scalars(sa.select(Run.rank).where(Run.id.in_(a))).all() == [0, 0]


def test_an_owner_has_at_most_the_allowed_number_running(store: Store) -> None:
    queue(store, "a", 3)
    queue(store, "b", 1)
    assert claimed(store, Limits(running=2)) == "aba"
    assert [run.owner for run in store.queue.waiting()] == ["a"]


def test_runs_without_an_owner_have_no_limit(store: Store) -> None:
    queue(store, "", 3)
    assert claimed(store, Limits(running=1, day_s=0)) == "" and not store.queue.waiting()


def test_limits_do_not_hide_a_requested_run(store: Store) -> None:
    a, b = queue(store, "a", 2), queue(store, "b", 2)
    run = store.queue.claim([b[1]], Limits(running=1))
    assert run is not None and run.id == b[1]
    assert store.queue.claim([b[0]], Limits(running=1)) is None
    assert store.queue.claim(a[1:]) is not None


def test_an_owner_over_the_daily_limit_waits_and_others_do_not(store: Store) -> None:
    queue(store, "a", 2)
    run = store.queue.claim()
    assert run is not None
    store.queue.heartbeat(run.id, run.epoch, seconds_per_round=0.0)
    store.queue.finish(run.id, run.epoch, "done", rounds=[a_round(0)])
    queue(store, "b", 1)
    assert store.shares.usage("b").computed == ()
    assert claimed(store, Limits(day_s=0.0)) == ""  # not even the first minute
    assert claimed(store, Limits(day_s=1.0)) == "ba"


@pytest.mark.parametrize("owner", ["", "a"])
def test_only_owners_are_recorded_as_served(store: Store, owner: str) -> None:
    queue(store, owner, 2)
    claimed(store)
    with store._database.read() as connection:
        assert connection.exec_driver_sql("SELECT owner FROM shares").scalars().all() == ([owner] if owner else [])
