"""The order of the queue: higher priority first, then the chosen order, then the oldest run."""

import pytest

from storage import QueueMove, Store
from storage.queue_order import moved
from tests.storage.samples import new_run


@pytest.fixture
def queued(store: Store) -> list[int]:
    """Four runs in the order of creation."""
    store.experiments.create("x", {}, [new_run(seed) for seed in range(4)])
    return [run.id for run in store.queue.waiting()]


def turns(store: Store) -> list[int]:
    """Claims every run and returns the order."""
    claimed = []
    while (run := store.queue.claim()) is not None:
        claimed.append(run.id)
    return claimed


@pytest.mark.parametrize(
    ("chosen", "to", "order"),
    [
        ([3], "first", [3, 1, 2, 4]),
        ([3], "earlier", [1, 3, 2, 4]),
        ([2], "later", [1, 3, 2, 4]),
        ([1], "last", [2, 3, 4, 1]),
        ([1], "earlier", [1, 2, 3, 4]),
        ([4], "later", [1, 2, 3, 4]),
        ([2, 4], "first", [2, 4, 1, 3]),
        ([2, 4], "earlier", [2, 4, 1, 3]),
        ([1, 3], "later", [2, 4, 1, 3]),
    ],
)
def test_selected_runs_move_together(chosen: list[int], to: QueueMove, order: list[int]) -> None:
    assert moved([1, 2, 3, 4], chosen, to) == order


def test_the_higher_priority_is_claimed_first(store: Store, queued: list[int]) -> None:
    store.queue.prioritize([queued[2]], 1)
    store.queue.prioritize([queued[0]], -1)
    assert turns(store) == [queued[2], queued[1], queued[3], queued[0]]


def test_moved_runs_are_claimed_in_their_order_before_newer_ones(store: Store, queued: list[int]) -> None:
    a, b, c, d = queued
    store.queue.move([d], "first")
    store.queue.move([b], "later")
    store.experiments.create("y", {}, [new_run(9)])
    assert [run.id for run in store.queue.waiting()][:4] == [d, a, c, b]
    assert turns(store)[:4] == [d, a, c, b]


def test_moving_does_not_affect_other_priorities_or_running_runs(store: Store, queued: list[int]) -> None:
    a, b, c, d = queued
    store.queue.prioritize([a, b], 1)
    store.queue.request([d], "cancel")
    store.queue.move([b, c, d], "first")
    assert turns(store) == [b, a, c]
