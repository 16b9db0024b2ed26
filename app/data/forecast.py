"""Estimates when queued runs will start and end, from the pace of similar runs and the available slots."""

import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from app.access.limits import owner_limits
from storage import Limits, RunRecord, Store
from storage.run_queue import NO_LIMITS


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


class _Turns:
    """The runs that wait, in the order in which they are claimed, unless their owner has reached a limit.

    Runs without an owner have no limit.
    """

    def __init__(
        self,
        running: Sequence[RunRecord],
        waiting: Sequence[RunRecord],
        limits: Limits,
        computed_s: Mapping[str, float],
    ) -> None:
        self._limits, self._computed_s = limits, defaultdict(float, computed_s)
        self._running = Counter(run.owner for run in running)
        self._waiting: dict[str, deque[tuple[int, RunRecord]]] = defaultdict(deque)
        for place, run in enumerate(waiting):
            self._waiting[run.owner].append((place, run))

    def claim(self) -> RunRecord | None:
        """The next run, which starts now."""
        first = [(runs[0][0], owner) for owner, runs in self._waiting.items() if runs and self._may_start(owner)]
        if not first:
            return None
        _, owner = min(first)
        self._running[owner] += 1
        return self._waiting[owner].popleft()[1]

    def end(self, owner: str, passed_s: float) -> None:
        """A run of the owner ends, ``passed_s`` after the last end."""
        for each, running in self._running.items():
            self._computed_s[each] += passed_s * running
        self._running[owner] -= 1

    def _may_start(self, owner: str) -> bool:
        most, day_s = self._limits.running, self._limits.day_s
        has_slot = most is None or self._running[owner] < most
        return not owner or (has_slot and (day_s is None or self._computed_s[owner] < day_s))


def forecast(
    running: Sequence[RunRecord],
    waiting: Sequence[RunRecord],
    slots: int,
    pace: Pace,
    limits: Limits = NO_LIMITS,
    computed_s: Mapping[str, float] = {},
) -> Forecast:
    """``waiting`` in the order in which they are claimed. Without a slot there is no forecast.

    ``computed_s`` has the seconds that owners have computed in the last 24 hours. When an owner reaches the limit of a
    day, the other runs of the owner start at an unknown time.
    """
    if slots < 1:
        return Forecast({}, {}, None)
    starts, ends = dict[int, float](), {run.id: pace.left_s(run) for run in running}
    busy = [(ends[run.id], run.id, run.owner) for run in running]
    heapq.heapify(busy)
    turns, now = _Turns(running, waiting, limits, computed_s), 0.0
    while True:
        while len(busy) < slots and (claimed := turns.claim()):
            starts[claimed.id], ends[claimed.id] = now, now + pace.left_s(claimed)
            heapq.heappush(busy, (ends[claimed.id], claimed.id, claimed.owner))
        if not busy or math.isinf(busy[0][0]):
            break
        end_s, _, owner = heapq.heappop(busy)
        turns.end(owner, end_s - now)
        now = end_s
    end = max(ends.values(), default=0.0) if len(starts) == len(waiting) else math.inf
    return Forecast(starts, _known(ends), end if math.isfinite(end) else None)


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
    owners = {run.owner for run in waiting if run.owner}
    limits = owner_limits() if owners else NO_LIMITS
    counted = owners if limits.day_s is not None else ()
    computed_s = {owner: sum(seconds for _, seconds in store.shares.usage(owner).computed) for owner in counted}
    return forecast(running, waiting, slots, Pace(timed), limits, computed_s)
