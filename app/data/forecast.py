"""Estimates when queued runs will start and end, from the pace of similar runs and the available slots."""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from storage import RunRecord, Store


@dataclass(frozen=True)
class Forecast:
    """Seconds from now; unknown starts and ends are absent, an unknown end of all is None."""

    starts_s: Mapping[int, float]
    ends_s: Mapping[int, float]
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
        return Forecast({}, {}, None)
    ends = {run.id: pace.left_s(run) for run in running}
    busy = sorted(ends.values())
    free_at = [0.0] * max(0, slots - len(busy)) + busy
    heapq.heapify(free_at)
    starts = {}
    for run in waiting:
        starts[run.id] = free_at[0]
        ends[run.id] = free_at[0] + pace.left_s(run)
        heapq.heapreplace(free_at, ends[run.id])
    end = max(ends.values(), default=0.0)
    return Forecast(_known(starts), _known(ends), end if math.isfinite(end) else None)


def _known(times: Mapping[int, float]) -> dict[int, float]:
    return {run_id: time for run_id, time in times.items() if math.isfinite(time)}


def of_queue(store: Store, waiting: Sequence[RunRecord]) -> Forecast:
    """The forecast of the current queue, on the slots of the running workers.

    ``waiting`` may end with runs that are still to be queued.
    """
    running = store.queue.runs(statuses=["running"], include_archived=True, with_partition=False)
    experiments = sorted({run.experiment_id for run in [*running, *waiting]})
    timed = store.queue.runs(
        experiment_ids=experiments, statuses=["running", "done"], include_archived=True, with_partition=False
    )
    slots = sum(engine.slots for engine in store.engines.list()) if store.dispatcher_is_running() else 0
    return forecast(running, waiting, slots, Pace(timed))
