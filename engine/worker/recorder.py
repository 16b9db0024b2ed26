"""Writes a run's rounds to the database, and reads its control requests.

While the database cannot be written (full disk, locked, server unavailable), training continues and rounds wait in
memory, up to MAX_PENDING_BYTES of them; then training waits too, for as long as it takes.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

from engine.core.results import RoundResult
from engine.exchange.records import round_record
from engine.worker.heartbeat import HEARTBEAT
from engine.worker.retry import Outage, T, until_available
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

WRITE_S = 0.5  # interval for writing rounds and reading requests
PACE_S = 2.0  # how often seconds per round are stored
MAX_PENDING_BYTES = 64 * 2**20
CHECKPOINT, CHECKPOINT_ROWS = "checkpoint", "checkpoint-rows"  # the rows: parts that several checkpoints share
CHECKPOINT_KINDS = (CHECKPOINT, CHECKPOINT_ROWS)
Encode = Callable[[Callable[[bytes], str]], bytes]
"""(a function that stores a part and returns its name) -> a checkpoint."""


class Stop(Exception):
    """Raised to stop a run that was paused or cancelled. Not an error."""

    def __init__(self, control: Literal["cancel", "pause"]) -> None:
        self.control = control
        super().__init__(control)


class Recorder:
    """Writes for the owner of one claim. Every write raises Fenced once the run has another owner."""

    def __init__(self, store: Store, run_id: int, epoch: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self.run_id, self.epoch = store, run_id, epoch
        self.round = -1  # the last added round
        self._is_ending = False
        self._pending: list[RoundRecord] = []
        self._pending_bytes = 0
        self._summary: dict[str, Any] | None = None
        self._warnings: list[tuple[str, str]] = []  # for the run's log: (kind, message)
        self._clock = clock
        self._written = self._paced = self._checkpointed = clock()
        self._added: float | None = None
        self._pace: float | None = None
        self._outage = Outage(clock)
        self._may_be_stored = False  # the outcome of the last write is unknown
        self._lacks_checkpoints = False
        self.parts: list[set[str]] = []  # of the last two checkpoints

    def add(self, result: RoundResult, summary: dict[str, Any], is_last: bool = False) -> None:
        """Adds a round to the next write. Raises Stop, but does not pause after the last round."""
        self._is_ending = is_last
        record = round_record(result)
        self._pending.append(record)
        self._pending_bytes += num_bytes(record)
        self.round, self._summary = result.round, summary
        now = self._clock()
        if self._added is not None:
            took = now - self._added
            self._pace = took if self._pace is None else 0.8 * self._pace + 0.2 * took
        self._added = now
        self.tick()
        while self._pending_bytes > MAX_PENDING_BYTES:
            time.sleep(WRITE_S)
            self.tick()

    def tick(self) -> None:
        """Called in every local step, so usually it only reads the clock. Raises Stop."""
        HEARTBEAT.beat()
        if self._clock() - self._written < WRITE_S:
            return
        try:
            control = self._write()
        except Transient as error:  # training continues; the rounds wait for the next try
            control = self._heartbeat() if isinstance(error, DiskFull) else ""
        self._written = self._clock()
        self._check_control(control)

    def warn(self, kind: str, message: str) -> None:
        """Adds a warning to the run's log with the next write."""
        self._warnings.append((kind, message))

    def checkpoint_is_due(self, every_s: float) -> bool:
        return self._clock() - self._checkpointed >= every_s and not self._outage.lasts

    def checkpoint(self, encode: Encode, parts: Callable[[], Sequence[str]] = tuple) -> None:
        """Registers a checkpoint in one transaction with the rounds up to it. The last two are kept.

        ``parts`` gives the names of the parts that the encoded checkpoint consists of, new ones and earlier ones.
        On a full disk the run continues without it, logs that once, and tries again when the next one is due.
        """
        try:
            self._checkpoint(encode, parts)
        except ArtifactNotWritten as error:
            if not self._lacks_checkpoints:
                self.warn(CHECKPOINT, f"the run continues without new checkpoints: {error}")
            self._lacks_checkpoints = True
        self._checkpointed = self._clock()  # counted from its end, so that a slow disk leaves time for training

    def store_file(self, file: NewArtifact) -> None:
        """Registers a file together with everything pending; waits until that succeeds."""
        until_available(lambda: self._register(file), self._heartbeat)

    def _register(self, file: NewArtifact) -> None:
        """Registers the file, or deletes it if the run has another owner by now.

        It stays if an earlier write that got no reply has registered it.
        """
        try:
            self.append(file)
        except Fenced:
            with suppress(Transient):  # the next start deletes it
                self.store.artifacts.remove_unregistered(file)
            raise

    def append(self, artifact: NewArtifact | None = None) -> Control:
        """Writes everything pending, with an artifact. Raises Transient, and keeps it all for later."""
        new = self._drop_stored(artifact)
        return self._attempt(
            lambda: self.store.metrics.append(
                self.run_id, self.epoch, self._pending, summary=self._summary, checkpoint=new
            )
        )

    def finish(self, status: Status, error: str | None = None) -> Status:
        """The final write, with everything pending; waits until it succeeds. Returns the resulting status."""

        def finish() -> Status:
            self._drop_stored()
            return self._attempt(
                lambda: self.store.queue.finish(
                    self.run_id, self.epoch, status, error=error, summary=self._summary, rounds=self._pending
                )
            )

        ended = until_available(finish, self._heartbeat)
        until_available(self._write_warnings)
        return ended

    def _write(self) -> Control:
        self._write_warnings()
        if self._pending:
            control = self.append()
            if self._clock() - self._paced < PACE_S:
                return control
        self._paced = self._clock()
        return self._attempt(lambda: self.store.queue.heartbeat(self.run_id, self.epoch, self._pace))

    def _heartbeat(self) -> Control:
        """Stores a heartbeat, which needs little space, so that requests are read even on a full disk."""
        with suppress(Transient):
            return self.store.queue.heartbeat(self.run_id, self.epoch)
        return ""

    def _checkpoint(self, encode: Encode, parts: Callable[[], Sequence[str]]) -> None:
        try:
            self._store(CHECKPOINT, encode(lambda part: self._store(CHECKPOINT_ROWS, part)))
        except Transient:
            return
        self.parts = [*self.parts[-1:], set(parts())]
        if self._lacks_checkpoints:
            self._lacks_checkpoints = False
            self.warn(CHECKPOINT, f"checkpoints are stored again, from round {self.round} on")
        until_available(lambda: self.store.artifacts.keep_last(self.run_id, CHECKPOINT, 2, self.epoch))
        until_available(lambda: self._drop_parts(set().union(*self.parts)))

    def _store(self, kind: str, data: bytes) -> str:
        """Writes and registers a file of a checkpoint; its SHA-256.

        Raises Transient, and deletes the file then unless it may have been registered.
        """
        file = self.store.artifacts.write_file(self.run_id, kind, self.round, data)
        try:
            self._register(file)
        except Transient:
            if not self._may_be_stored:
                self.store.artifacts.remove_files([file.path])
            raise
        return file.sha256

    def _drop_parts(self, kept: set[str]) -> None:
        """Deletes the parts that no kept checkpoint uses."""
        stored = self.store.artifacts.list(self.run_id, CHECKPOINT_ROWS)
        if old := [record.id for record in stored if record.sha256 not in kept]:
            self.store.artifacts.delete(old, (self.run_id, self.epoch))

    def _attempt(self, write: Callable[[], T]) -> T:
        """Runs a write that includes everything pending. A Transient failure begins an outage and is raised."""
        HEARTBEAT.beat()
        try:
            answer = write()
        except Transient as error:
            self._may_be_stored = self._may_be_stored or isinstance(error, DatabaseUnavailable)
            self._outage.begin(error, self.run_id)
            raise
        if (message := self._outage.end(len(self._pending))) is not None:
            self.warn("database", message)
        self._pending, self._pending_bytes, self._summary = [], 0, None
        return answer

    def _drop_stored(self, artifact: NewArtifact | None = None) -> NewArtifact | None:
        """If the last write may have succeeded: drops what it stored, including the artifact."""
        if not self._may_be_stored:
            return artifact
        last = self.store.queue.get(self.run_id).round
        is_registered = artifact is not None and self.store.artifacts.is_registered(artifact)
        self._pending = [record for record in self._pending if record.round > last]
        self._may_be_stored = False
        return None if is_registered else artifact

    def _write_warnings(self) -> None:
        while self._warnings:
            HEARTBEAT.beat()
            with suppress(RunNotFound):  # and its log
                self.store.events.add(self.run_id, "warning", *self._warnings[0])
            del self._warnings[0]

    def _check_control(self, control: Control) -> None:
        if control and not (control == "pause" and self._is_ending):
            raise Stop(control)


def num_bytes(record: RoundRecord) -> int:
    """The approximate size of a round in memory."""
    return sum(array.nbytes for array in record.arrays.values()) + 100 * len(record.scalars) + record.cohort.nbytes
