"""The one process that claims a database's queued runs and analyses and supervises them.

The database is the only source of truth. Whatever dies at any moment, the next turn
or the next dispatcher finds the row and resumes the run from its last registered checkpoint; an analysis starts over.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.core.errors import FedscapeError
from engine.worker.cleanup import clean_up
from engine.worker.executor import Ended, Executor, Key, Work
from engine.worker.work_queue import KILLED, AnalysisClaims, Claims, RunClaims, add_event
from storage import DispatcherLock, Fenced, StorageError, Store, Transient

STOP_GRACE_S = 2.0  # grace period before a worker that should stop is killed
CHECK_S = 0.25  # how often control requests are read
HEARTBEAT_S = 2.0
TRASH_S = 2.0  # how often deleted and restored runs are noticed
CLEANUP_S = 3600.0
WAIT_S = 0.2
RETRY_S = 0.5  # between turns while the database is unavailable

log = logging.getLogger(__name__)


class Dispatcher:
    """Owns the lock and the executor until ``close``. With ``run_ids`` it claims only these runs, and no analyses.

    Analyses come first and have their own slot, since a user is waiting for them.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        lock: DispatcherLock,
        *,
        run_ids: Collection[int] | None = None,
        data_dir: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Does not touch the database yet; the first turn cleans it up."""
        self.store, self.executor, self._lock, self._clock = store, executor, lock, clock
        executor.on_notice = lock.set_notice
        analyses: dict[str, Claims[Any]] = {"analysis": AnalysisClaims(store, data_dir)} if run_ids is None else {}
        self._runs = RunClaims(store, data_dir, run_ids)
        self._claims = analyses | {"run": self._runs}
        self._tickets: dict[Key, Work] = {}
        self._ended: list[Ended] = []  # reported, not settled yet
        self._killed: list[Work] = []  # not released yet
        self._settled: set[int] = set()  # runs whose studies may advance
        self._trashed: set[int] = set()  # runs that were in the trash when it was last read
        self._stopping_since: dict[Key, float] = {}
        self._checked = self._heartbeat_sent = self._trash_read = self._cleaned_up = -float("inf")
        self._engine_ids: set[str] = set()  # of the rows to delete at the end
        self._outage_ids: set[str] = set()  # of the rows that report an outage
        self._has_recovered = self._may_have_lost_claims = False

    @classmethod
    def acquire(
        cls, store: Store, executor: Executor, *, run_ids: Collection[int] | None = None, data_dir: Path | None = None
    ) -> "Dispatcher | None":
        """Returns None, and closes the executor, if another process is the dispatcher of this database."""
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
        """Whether nothing is running."""
        return not self._tickets

    def also(self, run_ids: Collection[int]) -> None:
        """Adds runs to those that it may claim, if it is limited to given ones."""
        self._runs.also(run_ids)

    def run(self, stop: threading.Event, until_idle: bool = False) -> None:
        """Runs turns until ``stop`` is set or the executor gives up, or with ``until_idle`` until nothing is left."""
        logged = ""
        while not stop.is_set() and not self.executor.has_given_up:
            try:
                self.step()
                logged = ""
            except Transient as error:  # a turn can be interrupted anywhere: the next one continues
                if logged != str(error):
                    logged = str(error)
                    log.warning("%s", logged)
                stop.wait(RETRY_S)
                continue
            if until_idle and self.is_idle:
                return

    def step(self, wait_s: float = WAIT_S) -> None:
        """One turn: waits up to ``wait_s`` for something to end, and refills the slots.

        Raises DispatcherLockLost if another process has become the dispatcher, which takes over the runs.
        """
        self._lock.renew()
        self._enforce_requests()  # first: it only reads, and may kill the worker that blocks all writers
        self._recover()
        self._settle()
        self._advance_studies()
        self._send_heartbeat()
        self._fill_slots()
        self._ended += self.executor.poll(wait_s)
        self._settle()
        self._advance_studies()
        self._fill_slots()

    def close(self) -> None:
        """Stops the workers and requeues their work for the next dispatcher."""
        self.executor.close()
        with suppress(StorageError):  # otherwise the next start requeues it; or it has a new owner
            self._lock.renew()
            for claims in self._claims.values():
                claims.requeue_running()
        self._tickets.clear()
        with suppress(StorageError):
            self._remove_machines(self._engine_ids - (self._outage_ids if self.executor.has_given_up else set()))
        self._lock.release()

    def _recover(self) -> None:
        """Migrates the database, requeues what an earlier dispatcher left running, and cleans up after it."""
        if not self._has_recovered:
            self._kill_abandoned_writer()
            self.store.migrate()
            for claims in self._claims.values():
                claims.requeue_running()
            self.store.artifacts.sweep()
            self._trashed = set(self.store.trash.ids())
            for experiment_id in self._runs.studies():
                self._advance(experiment_id)
            self._has_recovered = True
        if self._may_have_lost_claims:
            for claims in self._claims.values():
                claims.requeue_lost_claims(self._tickets.keys())
            self._may_have_lost_claims = False
        if self._clock() - self._cleaned_up >= CLEANUP_S:
            clean_up(self.store)
            self._cleaned_up = self._clock()

    def _kill_abandoned_writer(self) -> None:
        """Kills a stopped worker of an earlier dispatcher: it cannot exit by itself and would hold its lock forever."""
        writer = self.store.writer()
        if writer is not None and writer.is_abandoned and writer.is_stopped:
            with suppress(ProcessLookupError):
                os.kill(writer.pid, signal.SIGKILL)
                log.warning("killed %s: it was stopped, without a dispatcher, and kept the database locked", writer)

    def _fill_slots(self) -> None:
        self._may_have_lost_claims = True  # if the response to a claim is lost
        for kind, claims in self._claims.items():
            while self._has_free_slot(kind) and (tickets := claims.claim(self.executor.trains_together)):
                self._tickets |= {ticket.key: ticket for ticket in tickets}
                self.executor.submit(*tickets)
        self._may_have_lost_claims = False

    def _has_free_slot(self, kind: str) -> bool:
        return bool(self.executor.free_for_analyses if kind == "analysis" else self.executor.free)

    def _settle(self) -> None:
        """Releases or requeues what ended. What could not be stored is tried again in the next turn."""
        while self._killed:
            self._release(self._killed[0])
            del self._killed[0]
        while self._ended:
            ended = self._ended[0]
            if ended.problem is not None:
                claims = self._claims_of(ended.ticket)
                (claims.refused if ended.is_refused else claims.worker_died)(ended.ticket, ended.problem)
            self._drop(ended.ticket)
            del self._ended[0]

    def _release(self, killed: Work) -> None:
        with suppress(Fenced):
            what, number = killed.key
            message = f"the worker did not stop within {STOP_GRACE_S:g} s and was killed; {what} {number} is now"
            add_event(self.store, killed.run_id, "info", KILLED, f"{message} {self._claims_of(killed).release(killed)}")
        self._drop(killed)

    def _drop(self, ticket: Work) -> None:
        if self._tickets.get(ticket.key) == ticket:  # unless its run was claimed again meanwhile
            del self._tickets[ticket.key]
        if ticket.key[0] == "run":
            self._settled.add(ticket.run_id)

    def _advance_studies(self) -> None:
        """Advances the studies whose runs have ended, or were deleted or restored: then another result may count.

        Repeated in the next turn if it is interrupted.
        """
        if self._settled or self._clock() - self._trash_read >= TRASH_S:
            trashed = set(self.store.trash.ids())
            self._settled |= self._runs.own(trashed ^ self._trashed)
            self._trashed, self._trash_read = trashed, self._clock()
        if self._settled:
            for experiment_id in self.store.studies.of_runs(self._settled):
                self._advance(experiment_id)
            self._settled.clear()

    def _advance(self, experiment_id: int) -> None:
        from engine.worker.study import advance  # imports the methods, and with them torch: only for a study

        try:
            self.also(advance(self.store, experiment_id))
        except Transient:
            raise
        except (FedscapeError, StorageError) as error:  # a method was removed, the experiment just now, or a row is bad
            log.warning(
                "the study of experiment %d cannot advance, and is tried again at the next start: %s",
                experiment_id,
                error,
            )

    def _enforce_requests(self) -> None:
        """Kills workers that did not stop in time; when settled, their work gets the status that was requested."""
        now = self._clock()
        if not self._tickets or now - self._checked < CHECK_S:
            return
        self._checked = now
        ended = [*self._killed, *(ended.ticket for ended in self._ended)]
        stopping = self._tickets.keys() - self._to_continue() - {ticket.key for ticket in ended}
        self._stopping_since = {key: self._stopping_since.get(key, now) for key in stopping}
        for key, since in self._stopping_since.items():
            if now - since >= STOP_GRACE_S:
                self.executor.kill(self._tickets[key])
                self._killed.append(self._tickets[key])

    def _to_continue(self) -> set[Key]:
        """Keys of the tickets whose claims still hold and which were not asked to stop."""
        to_continue: set[Key] = set()
        for kind, claims in self._claims.items():
            if tickets := [ticket for ticket in self._tickets.values() if ticket.key[0] == kind]:
                to_continue |= claims.to_continue(tickets)
        return to_continue

    def _claims_of(self, ticket: Work) -> Claims[Any]:
        return self._claims[ticket.key[0]]

    def _send_heartbeat(self) -> None:
        """Stores a heartbeat for each machine, for display, and tells the executor how many runs are queued."""
        if self._clock() - self._heartbeat_sent >= HEARTBEAT_S:
            self.executor.expect(self.store.queue.counts().get("queued", 0))
            stored = {self.store.engines.heartbeat(pid=os.getpid(), **asdict(m)): m for m in self.executor.machines()}
            self._remove_machines(self._outage_ids - stored.keys())
            self._outage_ids = {engine_id for engine_id, machine in stored.items() if not machine.device}
            self._engine_ids |= stored.keys()
            self._heartbeat_sent = self._clock()

    def _remove_machines(self, engine_ids: Collection[str]) -> None:
        if engine_ids:  # a write may wait for another process
            self.store.engines.remove(engine_ids)
            self._engine_ids -= set(engine_ids)
