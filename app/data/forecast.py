"""Estimates when queued runs will start, from the pace of similar runs and the available slots."""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from storage import RunRecord, Store


@dataclass(frozen=True)
class Forecast:
    """Seconds from now; unknown starts are absent, an unknown end is None."""

    starts_s: Mapping[int, float]
    end_s: float | None


class Pace:
    """Seconds per round: a run's own, else those of its method in its experiment, else those of its experiment."""

    def __init__(self, runs: Iterable[RunRecord]) -> None:
        self._known: dict[object, list[float]] = defaultdict(list)
        for run in runs:
            if run.seconds_per_round is not None:
                self._known[run.experiment_id, run.algorithm].append(run.seconds_per_round)
                self._known[run.experiment_id].append(run.seconds_per_round)

    def left_s(self, run: RunRecord) -> float:
        """The remaining seconds of a run; infinite if no similar run has been timed."""
        own = [run.seconds_per_round] if run.seconds_per_round is not None else []
        alike = own or self._known[run.experiment_id, run.algorithm] or self._known[run.experiment_id]
        return (run.rounds - max(run.round, 0)) * median(alike) if alike else math.inf


def forecast(running: Sequence[RunRecord], waiting: Sequence[RunRecord], slots: int, pace: Pace) -> Forecast:
    """``waiting`` in the order in which they are claimed. Without a slot there is no forecast."""
    if slots < 1:
        return Forecast({}, None)
    busy = sorted(pace.left_s(run) for run in running)
    free_at = [0.0] * max(0, slots - len(busy)) + busy
    heapq.heapify(free_at)
    starts, end = {}, max(busy, default=0.0)
    for run in waiting:
        start = free_at[0]
        heapq.heapreplace(free_at, start + pace.left_s(run))
        starts[run.id] = start
        end = max(end, start + pace.left_s(run))
    known = {run_id: start for run_id, start in starts.items() if math.isfinite(start)}
    return Forecast(known, end if math.isfinite(end) else None)


def of_queue(store: Store, waiting: Sequence[RunRecord]) -> Forecast:
    """The forecast of the current queue, on the slots of the running workers."""
    running = store.queue.runs(statuses=["running"], include_archived=True, with_partition=False)
    experiments = sorted({run.experiment_id for run in [*running, *waiting]})
    timed = store.queue.runs(
        experiment_ids=experiments, statuses=["running", "done"], include_archived=True, with_partition=False
    )
    slots = sum(engine.slots for engine in store.engines.list()) if store.dispatcher_is_running() else 0
    return forecast(running, waiting, slots, Pace(timed))
