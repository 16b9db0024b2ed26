"""A run's rounds on their way into the database, and what the run is asked to do on the way back."""

import logging
import math
import time
from collections.abc import Callable
from typing import Any, Literal

from engine.results import RoundResult
from engine.worker.records import as_record
from storage import Control, DatabaseLocked, NewArtifact, RoundRecord, Status, Store

WRITE_S = 0.5  # rounds reach the database, and a request reaches the run, within this time
PACE_S = 2.0  # how often seconds per round are told to the screen
CHECKPOINT = "checkpoint"

log = logging.getLogger(__name__)


class Stop(Exception):
    """The run is asked to stop here. Not an error."""

    def __init__(self, control: Literal["cancel", "pause"]) -> None:
        self.control = control
        super().__init__(control)


class Recorder:
    """Writes for the owner of one claim. Every write raises Fenced when the run has another owner."""

    def __init__(
        self, store: Store, run_id: int, epoch: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.store, self.run_id, self.epoch = store, run_id, epoch
        self.round = -1  # the last round that was added
        self._is_ending = False
        self._pending: list[RoundRecord] = []
        self._summary: dict[str, Any] | None = None
        self._clock = clock
        self._written = self._paced = self._kept = clock()
        self._added: float | None = None
        self._pace: float | None = None

    def add(self, result: RoundResult, summary: dict[str, Any], is_last: bool = False) -> None:
        """Keeps a round and writes it with others. Raises Stop; after the last round a pause comes too late."""
        self._is_ending = is_last
        self._pending.append(as_record(result))
        self.round, self._summary = result.round, without_nan(summary)
        now = self._clock()
        if self._added is not None:
            took = now - self._added
            self._pace = took if self._pace is None else 0.8 * self._pace + 0.2 * took
        self._added = now
        self.tick()

    def tick(self) -> None:
        """Called in every local step: mostly looks at the clock. Raises Stop."""
        if self._clock() - self._written < WRITE_S:
            return
        try:
            control = self._write()
        except DatabaseLocked as error:  # training goes on; the rounds wait for the next turn
            log.warning("run %d: %s", self.run_id, error)
            control = ""
        self._written = self._clock()
        if control and not (control == "pause" and self._is_ending):
            raise Stop(control)

    def checkpoint_is_due(self, every_s: float) -> bool:
        return self._clock() - self._kept >= every_s

    def checkpoint(self, data: bytes) -> None:
        """Registered in one transaction with the rounds up to it. The last two are kept."""
        self.append(self.store.artifacts.write_file(self.run_id, CHECKPOINT, self.round, data))
        self.store.artifacts.keep_last(self.run_id, CHECKPOINT, 2)
        self._kept = self._clock()

    def append(self, artifact: NewArtifact | None = None) -> Control:
        """Everything pending, with an artifact that belongs to it."""
        control = self.store.metrics.append(
            self.run_id, self.epoch, self._pending, summary=self._summary, checkpoint=artifact
        )
        self._pending, self._summary = [], None
        return control

    def finish(self, status: Status, error: str | None = None) -> Status:
        """The last write, with everything pending. Answers what the run is now."""
        ended = self.store.queue.finish(self.run_id, self.epoch, status, error, self._summary, self._pending)
        self._pending, self._summary = [], None
        return ended

    def _write(self) -> Control:
        if self._pending:
            control = self.append()
            if self._clock() - self._paced < PACE_S:
                return control
        self._paced = self._clock()
        return self.store.queue.heartbeat(self.run_id, self.epoch, self._pace)


def without_nan(value: Any) -> Any:
    """As JSON can hold it: None for what is not a finite number."""
    if isinstance(value, dict):
        return {k: without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
