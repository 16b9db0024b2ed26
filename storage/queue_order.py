"""Reordering runs in the queue."""

from collections.abc import Collection, Sequence

from storage.records import QueueMove


def moved(order: Sequence[int], chosen: Collection[int], to: QueueMove) -> list[int]:
    """``order`` with the chosen ids moved to an end, or by one step, as one block.

    ``moved([1, 2, 3, 4], {3}, "earlier") == [1, 3, 2, 4]``
    """
    block, others = [i for i in order if i in chosen], [i for i in order if i not in chosen]
    before_block = sum(i not in chosen for i in order[: order.index(block[0])])
    before_last = sum(i not in chosen for i in order[: order.index(block[-1])])
    at = {"first": 0, "earlier": max(0, before_block - 1), "later": before_last + 1, "last": len(others)}[to]
    return [*others[:at], *block, *others[at:]]
