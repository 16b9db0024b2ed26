"""Kills of processes, the runs they hit, and how long those take to recover."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.processes import FORK_SERVER, WORKER, Process
from engine.worker.recorder import CHECKPOINT
from engine.worker.work_queue import DIED
from storage import RunRecord, Store

STOPS_S = 0.02
EVERYTHING = "everything"
STOPPED = "stopped in write"  # a worker, which the dispatcher then kills


@dataclass
class Kill:
    kind: str
    at: float
    hit: dict[int, int]  # run -> epoch of the claim that it lost
    recovered_s: float | None = None  # until one of them stored a new round

    @property
    def is_open(self) -> bool:
        return bool(self.hit) and self.recovered_s is None

    def see(self, run: RunRecord) -> None:
        """Called when the run has stored a round or its end."""
        lost = self.hit.get(run.id)
        if lost is None:
            return
        if run.epoch > lost:
            self.recovered_s = time.monotonic() - self.at
        elif run.is_finished:  # just before the kill
            del self.hit[run.id]


class Kills:
    """All kills so far, with their recovery times."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.all: list[Kill] = []
        self._rounds: dict[tuple[int, int], int] = {}  # (run, epoch) -> last round seen
        self._progress_at = 0.0  # when a round was last seen

    def add(self, kind: str, hit: Sequence[RunRecord]) -> None:
        self.all.append(Kill(kind, time.monotonic(), {run.id: run.epoch for run in hit}))

    @property
    def is_any_open(self) -> bool:
        return any(kill.is_open for kill in self.all)

    @property
    def all_recovered(self) -> bool:
        """Everything hit has recovered, and there was progress since the last kill."""
        return not self.is_any_open and self._progress_at > self.all[-1].at

    def poll(self) -> None:
        """Polls the runs; call it often, since recovery is timed at the call."""
        open_kills = [kill for kill in self.all if kill.is_open]
        hit = sorted({run_id for kill in open_kills for run_id in kill.hit} | set(self.store.queue.ids(["running"])))
        for run in self.store.queue.runs(run_ids=hit, with_partition=False):
            before = self._rounds.get((run.id, run.epoch), run.round)
            self._rounds[run.id, run.epoch] = run.round
            if run.round > before or run.is_finished:
                self._progress_at = time.monotonic()
                for kill in open_kills:
                    kill.see(run)


def kill_at_once(tree: Callable[[], Sequence[Process]]) -> None:
    """Stops all processes first, so that none notices the death of another."""
    stopped: set[Process] = set()
    while fresh := set(tree()) - stopped:
        for process in fresh:
            process.send(signal.SIGSTOP)
        stopped |= fresh
    for process in stopped:
        process.send(signal.SIGKILL)


def stop_in_write(store: Store, workers: Sequence[Process], patience_s: float) -> Process | None:
    """Stops a worker that holds the database's write lock; None if none took it in time."""
    by_pid, until = {worker.pid: worker for worker in workers}, time.monotonic() + patience_s
    while time.monotonic() < until:
        writer = store.writer()
        victim = by_pid.get(writer.pid) if writer else None
        if victim is not None:
            victim.send(signal.SIGSTOP)
            time.sleep(STOPS_S)
            writer = store.writer()
            if writer is not None and writer.pid == victim.pid:
                return victim
            victim.send(signal.SIGCONT)  # it had just committed
    return None


def is_hit(run: RunRecord, kind: str, victim: Process) -> bool:
    """Whether killing ``victim`` interrupts ``run``; workers outlive their fork server."""
    return worker_pid(run) == victim.pid if kind in (WORKER, STOPPED) else kind != FORK_SERVER


def deaths(store: Store, run_id: int) -> int:
    """Worker deaths of a run since its newest checkpoint; after too many the run fails."""
    checkpoint = store.artifacts.latest(run_id, CHECKPOINT)
    died = (event for event in store.events.list(run_id) if event.kind == DIED)
    return sum(checkpoint is None or event.at > checkpoint.created_at for event in died)


def worker_pid(run: RunRecord) -> int | None:
    return int(run.worker.rpartition(":")[2]) if run.worker else None


def timing(kills: Kills, kind: str) -> dict[str, Any]:
    """Kills of one kind, how many hit a run, and the seconds until recovery."""
    own = [kill for kill in kills.all if kill.kind == kind]
    took = [kill.recovered_s for kill in own if kill.recovered_s is not None]
    shares = {"median": 50, "p90": 90, "worst": 100}
    seconds = {name: round(float(np.percentile(took, share)), 2) if took else None for name, share in shares.items()}
    return {"times": len(own), "hit": sum(bool(kill.hit) for kill in own), **seconds}
