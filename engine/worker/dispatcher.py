"""The one process that claims queued runs and analyses of a database and sees each of them through.

It trusts nothing but the database: whatever dies, at whatever moment, the next turn or the next dispatcher finds the
run's row, and takes it up again from its last registered checkpoint; an analysis begins anew.
"""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.worker.executor import Ended, Executor, Key, Work
from engine.worker.upkeep import tidy
from engine.worker.work_queue import KILLED, AnalysisClaims, Claims, RunClaims, note
from storage import DispatcherLock, Fenced, StorageError, Store, Transient

OBEY_S = 2.0  # after that a worker that should stop is killed
LOOK_S = 0.25  # how often requests are looked for
BEAT_S = 2.0
TIDY_S = 3600.0
WAIT_S = 0.2
RETRY_S = 0.5  # between turns while the database does not answer

log = logging.getLogger(__name__)


class Dispatcher:
    """Owns the lock and the executor it is given until ``close``. ``run_ids``: claim none but these, and no analysis.

    Analyses come first, and have a slot of their own: somebody sits in front of the screen and waits for them.
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
        """Touches nothing yet: the first turn puts the database in order."""
        self.store, self.executor, self._lock, self._clock = store, executor, lock, clock
        executor.on_notice = lock.tell
        analyses: dict[str, Claims[Any]] = {"analysis": AnalysisClaims(store, data_dir)} if run_ids is None else {}
        self._claims = analyses | {"run": RunClaims(store, data_dir, run_ids)}
        self._tickets: dict[Key, Work] = {}
        self._ended: list[Ended] = []  # heard of, not settled yet
        self._unwanted_since: dict[Key, float] = {}
        self._looked = self._beaten = self._tidied = -float("inf")
        self._engine_id = ""
        self._is_in_order = self._may_have_strays = False

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
        trouble = ""
        while not stop.is_set():
            try:
                self.step()
                trouble = ""
            except Transient as error:  # a turn may be left anywhere: the next one goes on with it
                if trouble != str(error):
                    trouble = str(error)
                    log.warning("%s", trouble)
                stop.wait(RETRY_S)
                continue
            if until_idle and self.is_idle:
                return

    def step(self, wait_s: float = WAIT_S) -> None:
        """One turn; waits up to ``wait_s`` for something to end, and refills its slot.

        Raises DispatcherLockLost where another process is the dispatcher now, which takes up what this one began.
        """
        self._lock.renew()
        self._watch()  # first: it only reads, and who is killed here may be the one that keeps others from writing
        self._put_in_order()
        self._settle()
        self._beat()
        self._fill_slots()
        self._ended += self.executor.poll(wait_s)
        self._settle()
        self._fill_slots()

    def close(self) -> None:
        """Stops the workers; what they worked on is queued again, for the next dispatcher."""
        self.executor.close()
        with suppress(StorageError):  # what is not let go now is let go at the next start; or it is another's by now
            self._lock.renew()
            for claims in self._claims.values():
                claims.requeue_running()
        self._tickets.clear()
        with suppress(StorageError):
            self.store.engines.remove(self._engine_id)
        self._lock.release()

    def _put_in_order(self) -> None:
        """Migrates the database, queues again what a dispatcher before it left running, and clears up after it."""
        if not self._is_in_order:
            self._end_abandoned_writer()
            self.store.migrate()
            for claims in self._claims.values():
                claims.requeue_running()
            self.store.artifacts.sweep()
            self._is_in_order = True
        if self._may_have_strays:
            for claims in self._claims.values():
                claims.requeue_strays(self._tickets.keys())
            self._may_have_strays = False
        if self._clock() - self._tidied >= TIDY_S:
            tidy(self.store)
            self._tidied = self._clock()

    def _end_abandoned_writer(self) -> None:
        """A worker leaves with its dispatcher, but not one that is stopped: it would keep its lock for ever."""
        writer = self.store.writer()
        if writer is not None and writer.is_abandoned and writer.is_stopped:
            with suppress(ProcessLookupError):
                os.kill(writer.pid, signal.SIGKILL)
                log.warning("killed %s: stopped, left by its dispatcher, it kept the database locked", writer)

    def _fill_slots(self) -> None:
        self._may_have_strays = True  # where a claim's answer does not arrive
        for kind, claims in self._claims.items():
            while self._has_room(kind) and (ticket := claims.claim()) is not None:
                self._tickets[ticket.key] = ticket
                self.executor.submit(ticket)
        self._may_have_strays = False

    def _has_room(self, kind: str) -> bool:
        return bool(self.executor.free_for_analyses if kind == "analysis" else self.executor.free)

    def _settle(self) -> None:
        while self._ended:
            ended = self._ended[0]
            if ended.problem is not None:
                self._of(ended.ticket).died(ended.ticket, ended.problem)
            self._tickets.pop(ended.ticket.key, None)
            del self._ended[0]

    def _watch(self) -> None:
        """A worker has time to obey by itself; then it is killed, and its work becomes what it was asked to become."""
        now, over = self._clock(), {ended.ticket.key for ended in self._ended}
        if not self._tickets or now - self._looked < LOOK_S:
            return
        self._looked = now
        unwanted = self._tickets.keys() - self._wanted() - over
        self._unwanted_since = {key: self._unwanted_since.get(key, now) for key in unwanted}
        for key, since in self._unwanted_since.items():
            if now - since >= OBEY_S:
                self._kill(self._tickets[key])

    def _wanted(self) -> set[Key]:
        """What shall go on."""
        wanted: set[Key] = set()
        for kind, claims in self._claims.items():
            if tickets := [ticket for ticket in self._tickets.values() if ticket.key[0] == kind]:
                wanted |= claims.wanted(tickets)
        return wanted

    def _kill(self, ticket: Work) -> None:
        self.executor.kill(ticket)
        with suppress(Fenced):
            what, number = ticket.key
            message = f"the worker did not stop within {OBEY_S:g} s and was killed; {what} {number} is now"
            note(self.store, ticket.run_id, "info", KILLED, f"{message} {self._of(ticket).let_go(ticket)}")
        del self._tickets[ticket.key]

    def _of(self, ticket: Work) -> Claims[Any]:
        return self._claims[ticket.key[0]]

    def _beat(self) -> None:
        """Tells the screen that this engine lives."""
        if self._clock() - self._beaten >= BEAT_S:
            self._engine_id = self.store.engines.beat(
                host=socket.gethostname(),
                pid=os.getpid(),
                device=self.executor.device,
                slots=self.executor.slots,
                running=sum(kind == "run" for kind, _ in self._tickets),
            )
            self._beaten = self._clock()
