"""The one process that claims queued runs of a database and sees each of them through.

It trusts nothing but the database: whatever dies, at whatever moment, the next turn or the next dispatcher finds the
run's row, and takes it up again from its last registered checkpoint.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from engine.worker.executor import Ended, Executor, Ticket
from storage import DatabaseLocked, DispatcherLock, Fenced, RunNotFound, RunRecord, StorageError, Store

MAX_DEATHS = 3  # of the workers of one run; then the run itself is the likely cause
OBEY_S = 2.0  # after that a worker that should stop is killed
LOOK_S = 0.25  # how often requests are looked for
BEAT_S = 2.0
WAIT_S = 0.2
DIED = "worker-died"

log = logging.getLogger(__name__)


class Dispatcher:
    """Owns the lock and the executor it is given until ``close``. ``run_ids``: claim none but these."""

    def __init__(
        self, store: Store, executor: Executor, lock: DispatcherLock, *, run_ids: Collection[int] | None = None,
        data_dir: Path | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Touches nothing yet: the first turn puts the database in order."""
        self.store, self.executor, self._lock, self._clock = store, executor, lock, clock
        self._run_ids = None if run_ids is None else list(run_ids)
        self._data_dir = data_dir
        self._tickets: dict[int, Ticket] = {}
        self._ended: list[Ended] = []  # heard of, not settled yet
        self._unwanted_since: dict[int, float] = {}
        self._looked = self._beaten = -float("inf")
        self._engine_id = ""
        self._is_in_order = False

    @classmethod
    def acquire(
        cls, store: Store, executor: Executor, *, run_ids: Collection[int] | None = None, data_dir: Path | None = None
    ) -> "Dispatcher | None":
        """None, and the executor closed, where another process is the dispatcher of this database."""
        lock = store.try_dispatcher_lock()
        if lock is None:
            executor.close()
            return None
        return cls(store, executor, lock, run_ids=run_ids, data_dir=data_dir)

    def __enter__(self) -> "Dispatcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being computed."""
        return not self._tickets

    def run(self, stop: threading.Event, until_idle: bool = False) -> None:
        """Turn after turn until ``stop`` is set, or until there is nothing to do."""
        while not stop.is_set():
            try:
                self.step()
            except DatabaseLocked as error:  # a turn may be left anywhere: the next one goes on with it
                log.warning("%s", error)
                continue
            if until_idle and self.is_idle:
                return

    def step(self, wait_s: float = WAIT_S) -> None:
        """One turn; waits up to ``wait_s`` for a run to end, and refills its slot."""
        self._put_in_order()
        self._settle()
        self._beat()
        self._stop_unwanted()
        self._fill_slots()
        self._ended += self.executor.poll(wait_s)
        self._settle()
        self._fill_slots()

    def close(self) -> None:
        """Stops the workers; their runs are queued again, for the next dispatcher."""
        self.executor.close()
        for ticket in self._tickets.values():
            with suppress(StorageError):  # what is not let go now is let go at the next start
                self.store.queue.requeue(ticket.run_id, ticket.epoch)
        self._tickets.clear()
        with suppress(StorageError):
            self.store.engines.remove(self._engine_id)
        self._lock.release()

    def _put_in_order(self) -> None:
        """Migrates the database, queues again what a dispatcher before it left running, and clears up after it."""
        if not self._is_in_order:
            self.store.migrate()
            self.store.queue.requeue_running()
            self.store.artifacts.sweep()
            self._is_in_order = True

    def _fill_slots(self) -> None:
        while self.executor.free:
            run = self.store.queue.claim(self._run_ids)
            if run is None:
                return
            store = self.store
            ticket = Ticket(run.id, run.epoch, store.url, store.artifacts.folder, self._data_dir)
            self._tickets[run.id] = ticket
            self.executor.submit(ticket)

    def _settle(self) -> None:
        while self._ended:
            ended = self._ended[0]
            if ended.problem is not None:
                self._take_back(ended.ticket, ended.problem)
            self._tickets.pop(ended.ticket.run_id, None)
            del self._ended[0]

    def _take_back(self, ticket: Ticket, problem: str) -> None:
        """Its worker could not bring it to an end: queued again, but not for ever."""
        died = [event for event in self.store.events.list(ticket.run_id) if event.kind == DIED]
        with suppress(Fenced):  # it had been finished just before
            if len(died) + 1 < MAX_DEATHS:
                self.store.queue.requeue(ticket.run_id, ticket.epoch)
            else:
                error = f"given up after {MAX_DEATHS} attempts: {problem}"
                advice = "if memory is short, let fewer runs compute at once (FEDSCAPE_SLOTS=1), then retry"
                self.store.queue.finish(ticket.run_id, ticket.epoch, "failed", f"{error}; {advice}")
        with suppress(RunNotFound):
            self.store.events.add(ticket.run_id, "error", DIED, problem)

    def _stop_unwanted(self) -> None:
        """A worker has time to obey by itself; then it is killed, and its run becomes what it was asked to become."""
        now = self._clock()
        if not self._tickets or now - self._looked < LOOK_S:
            return
        self._looked = now
        ids = list(self._tickets)
        runs = self.store.queue.runs(run_ids=ids, include_archived=True, with_partition=False)
        wanted = {run.id for run in runs if _is_wanted(run, self._tickets[run.id])}
        self._unwanted_since = {i: self._unwanted_since.get(i, now) for i in ids if i not in wanted}
        for run_id, since in self._unwanted_since.items():
            if now - since >= OBEY_S:
                self._kill(self._tickets[run_id])

    def _kill(self, ticket: Ticket) -> None:
        self.executor.kill(ticket)
        with suppress(Fenced, RunNotFound):
            status = self.store.queue.requeue(ticket.run_id, ticket.epoch)
            message = f"the worker did not stop within {OBEY_S:g} s and was killed; the run is now {status}"
            self.store.events.add(ticket.run_id, "info", "worker-killed", message)
        del self._tickets[ticket.run_id]

    def _beat(self) -> None:
        """Tells the screen that this engine lives."""
        if self._clock() - self._beaten >= BEAT_S:
            self._beaten = self._clock()
            self._engine_id = self.store.engines.beat(
                host=socket.gethostname(), pid=os.getpid(), device=self.executor.device, slots=self.executor.slots,
                running=len(self._tickets),
            )


def _is_wanted(run: RunRecord, ticket: Ticket) -> bool:
    return run.status == "running" and run.epoch == ticket.epoch and not run.control
