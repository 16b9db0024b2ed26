"""A run's rounds on their way into the database, and what the run is asked to do on the way back.

While the database cannot be written (its disk is full, it is locked, its server is away) training goes on and rounds
wait in memory, up to WAITING_BYTES of them; then training waits, too, as long as it takes.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from engine.core.results import RoundResult
from engine.exchange.records import as_record
from engine.worker.heartbeat import OURS
from engine.worker.retry import Outage, T, patiently
from storage import (
    ArtifactNotWritten,
    Control,
    DatabaseUnavailable,
    DiskFull,
    Fenced,
    NewArtifact,
    RoundRecord,
    RunNotFound,
    Status,
    Store,
    Transient,
)

WRITE_S = 0.5  # rounds reach the database, and a request reaches the run, within this time
PACE_S = 2.0  # how often seconds per round are told to the screen
WAITING_BYTES = 64 * 2**20
CHECKPOINT = "checkpoint"


class Stop(Exception):
    """The run is asked to stop here. Not an error."""

    def __init__(self, control: Literal["cancel", "pause"]) -> None:
        self.control = control
        super().__init__(control)


class Recorder:
    """Writes for the owner of one claim. Every write raises Fenced when the run has another owner."""

    def __init__(self, store: Store, run_id: int, epoch: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self.run_id, self.epoch = store, run_id, epoch
        self.round = -1  # the last round that was added
        self._is_ending = False
        self._pending: list[RoundRecord] = []
        self._pending_bytes = 0
        self._summary: dict[str, Any] | None = None
        self._warnings: list[tuple[str, str]] = []  # for the run's log: kind, message
        self._clock = clock
        self._written = self._paced = self._kept = clock()
        self._added: float | None = None
        self._pace: float | None = None
        self._outage = Outage(clock)
        self._is_unsure = False  # whether the last write took place
        self._lacks_checkpoints = False

    def add(self, result: RoundResult, summary: dict[str, Any], is_last: bool = False) -> None:
        """Keeps a round and writes it with others. Raises Stop; after the last round a pause comes too late."""
        self._is_ending = is_last
        record = as_record(result)
        self._pending.append(record)
        self._pending_bytes += num_bytes(record)
        self.round, self._summary = result.round, without_nan(summary)
        now = self._clock()
        if self._added is not None:
            took = now - self._added
            self._pace = took if self._pace is None else 0.8 * self._pace + 0.2 * took
        self._added = now
        self.tick()
        while self._pending_bytes > WAITING_BYTES:
            time.sleep(WRITE_S)
            self.tick()

    def tick(self) -> None:
        """Called in every local step: mostly looks at the clock. Raises Stop."""
        OURS.beat()
        if self._clock() - self._written < WRITE_S:
            return
        try:
            control = self._write()
        except Transient as error:  # training goes on; the rounds wait for the next turn
            control = self._sign_of_life() if isinstance(error, DiskFull) else ""
        self._written = self._clock()
        self._obey(control)

    def warn(self, kind: str, message: str) -> None:
        """Into the run's log, with the next write."""
        self._warnings.append((kind, message))

    def checkpoint_is_due(self, every_s: float) -> bool:
        return self._clock() - self._kept >= every_s and not self._outage.lasts

    def checkpoint(self, data: bytes) -> None:
        """Registered in one transaction with the rounds up to it. The last two are kept.

        Where there is no room for it, the run goes on without it, says so once, and tries again when the next is due.
        """
        try:
            self._checkpoint(data)
        except ArtifactNotWritten as error:
            if not self._lacks_checkpoints:
                self.warn(CHECKPOINT, f"the run goes on without new checkpoints: {error}")
            self._lacks_checkpoints = True
        self._kept = self._clock()  # from its end on, so that a slow disk leaves time for training

    def keep(self, file: NewArtifact) -> None:
        """A file that stays with the run, registered with everything pending; waits until it is done."""
        patiently(lambda: self._register(file), self._sign_of_life)

    def _register(self, file: NewArtifact) -> None:
        """Where the run has another owner by now, nobody will ever ask for the file."""
        try:
            self.append(file)
        except Fenced:
            self.store.artifacts.remove_files([file.path])
            raise

    def append(self, artifact: NewArtifact | None = None) -> Control:
        """Everything pending, with an artifact that belongs to it. Raises Transient, and keeps it all for later."""
        new = self._without_what_is_stored(artifact)
        return self._stored(
            lambda: self.store.metrics.append(
                self.run_id, self.epoch, self._pending, summary=self._summary, checkpoint=new
            )
        )

    def finish(self, status: Status, error: str | None = None) -> Status:
        """The last write, with everything pending; waits until it is done. Answers what the run is now."""

        def finish() -> Status:
            self._without_what_is_stored()
            return self._stored(
                lambda: self.store.queue.finish(self.run_id, self.epoch, status, error, self._summary, self._pending)
            )

        ended = patiently(finish, self._sign_of_life)
        patiently(self._tell)
        return ended

    def _write(self) -> Control:
        self._tell()
        if self._pending:
            control = self.append()
            if self._clock() - self._paced < PACE_S:
                return control
        self._paced = self._clock()
        return self._stored(lambda: self.store.queue.heartbeat(self.run_id, self.epoch, self._pace))

    def _sign_of_life(self) -> Control:
        """Little is written and requests are heard even where there is no room for rounds."""
        with suppress(Transient):
            return self.store.queue.heartbeat(self.run_id, self.epoch)
        return ""

    def _checkpoint(self, data: bytes) -> None:
        file = self.store.artifacts.write_file(self.run_id, CHECKPOINT, self.round, data)
        try:
            self._register(file)
        except Transient:
            if not self._is_unsure:
                self.store.artifacts.remove_files([file.path])
            return
        if self._lacks_checkpoints:
            self._lacks_checkpoints = False
            self.warn(CHECKPOINT, f"checkpoints are kept again, from round {self.round} on")
        patiently(lambda: self.store.artifacts.keep_last(self.run_id, CHECKPOINT, 2))

    def _stored(self, write: Callable[[], T]) -> T:
        """A write that takes everything pending with it, or is an outage."""
        OURS.beat()
        try:
            answer = write()
        except Transient as error:
            self._is_unsure = self._is_unsure or isinstance(error, DatabaseUnavailable)
            self._outage.begin(error, self.run_id)
            raise
        if (told := self._outage.end(len(self._pending))) is not None:
            self.warn("database", told)
        self._pending, self._pending_bytes, self._summary = [], 0, None
        return answer

    def _without_what_is_stored(self, artifact: NewArtifact | None = None) -> NewArtifact | None:
        """Where nobody knows whether the last write took place: drops what it stored, the artifact, too."""
        if not self._is_unsure:
            return artifact
        last = self.store.queue.get(self.run_id).round
        is_there = artifact is not None and self.store.artifacts.is_registered(artifact)
        self._pending = [record for record in self._pending if record.round > last]
        self._is_unsure = False
        return None if is_there else artifact

    def _tell(self) -> None:
        while self._warnings:
            OURS.beat()
            with suppress(RunNotFound):  # and its log with it
                self.store.events.add(self.run_id, "warning", *self._warnings[0])
            del self._warnings[0]

    def _obey(self, control: Control) -> None:
        if control and not (control == "pause" and self._is_ending):
            raise Stop(control)


def num_bytes(record: RoundRecord) -> int:
    """What a round takes in memory, nearly."""
    return sum(array.nbytes for array in record.arrays.values()) + 100 * len(record.scalars) + record.cohort.nbytes


def without_nan(value: Any) -> Any:
    """As JSON can hold it: None for what is not a finite number."""
    if isinstance(value, dict):
        return {k: without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
