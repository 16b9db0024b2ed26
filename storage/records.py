"""What leaves storage: frozen records of plain values and numpy arrays, never database rows.

Every time is an aware UTC datetime. Not-a-number lives in arrays and scalars only; inside a dict it has become None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np

Status = Literal["queued", "running", "paused", "done", "failed", "cancelled", "diverged"]
Control = Literal["", "cancel", "pause"]
Place = Literal["first", "earlier", "later", "last"]  # in the queue
AnalysisStatus = Literal["queued", "running", "done", "failed", "cancelled"]

ACTIVE: tuple[Status, ...] = ("queued", "running")
FINISHED: tuple[Status, ...] = ("done", "failed", "cancelled", "diverged")


@dataclass(frozen=True)
class NewRun:
    """A run as it is asked for: one algorithm, one seed, everything resolved."""

    algorithm: str
    label: str
    seed: int
    hparams: dict[str, Any]
    config: dict[str, Any]  # the whole resolved configuration of this single run
    rounds: int
    digest: str  # equal digests: equal results
    cost: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """One stored round. Arrays keep their dtype and shape; NaN means not measured."""

    round: int
    cohort: np.ndarray  # [S] int32
    scalars: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    clusters: np.ndarray | None = None  # [N] int16
    evaluated: bool = True


class FinishedFile(NamedTuple):
    """Models of a run that was computed elsewhere, read when it is their turn."""

    kind: str
    round: int
    read: Callable[[], bytes]


class FinishedAnalysis(NamedTuple):
    """An analysis of such a run, with its result."""

    kind: str
    params: dict[str, Any]
    result: FinishedFile


class FinishedEvent(NamedTuple):
    """A line of such a run's log."""

    at: datetime
    level: str
    kind: str
    message: str


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that was computed elsewhere and is imported with its rounds, and with what else there is of it."""

    run: NewRun
    status: Status
    rounds: Sequence[RoundRecord]
    provenance: dict[str, Any] | None = None
    partition: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None
    error: str | None = None
    models: Sequence[FinishedFile] = ()
    analyses: Sequence[FinishedAnalysis] = ()
    events: Sequence[FinishedEvent] = ()


@dataclass(frozen=True)
class ExperimentRecord:
    """A set of runs that were asked for together."""

    id: int
    name: str
    config: dict[str, Any]
    created_at: datetime
    archived: bool
    example: bool
    num_runs: int
    status_counts: dict[str, int]


@dataclass(frozen=True)
class RunRecord:
    """A run and where it stands. ``round`` is the last committed one, -1 before the first."""

    id: int
    experiment_id: int
    experiment_name: str
    position: int
    algorithm: str
    label: str
    seed: int
    hparams: dict[str, Any]
    config: dict[str, Any]
    digest: str
    status: Status
    rounds: int
    round: int
    epoch: int
    control: Control
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    heartbeat_at: datetime | None
    seconds_per_round: float | None
    error: str | None
    worker: str | None
    provenance: dict[str, Any] | None
    partition: dict[str, Any] | None
    summary: dict[str, Any] | None
    archived: bool
    example: bool
    cost: dict[str, Any] | None = None
    priority: int = 0
    deleted_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        """Queued or running: it will go on without anybody doing anything."""
        return self.status in ACTIVE

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED


class NewArtifact(NamedTuple):
    """A file that is on disk, and that no row points to yet."""

    kind: str
    round: int
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ArtifactRecord:
    """A registered file; ``path`` is relative to the artifacts' folder."""

    id: int
    run_id: int
    kind: str
    round: int
    path: str
    sha256: str
    size_bytes: int
    created_at: datetime


@dataclass(frozen=True)
class EventRecord:
    """One line of the log, of a run or of the whole installation."""

    id: int
    run_id: int | None
    at: datetime
    level: str
    kind: str
    message: str


@dataclass(frozen=True)
class AnalysisRecord:
    """A computation on a finished run's models (landscape, features, ...), how far it is, and its result's artifact."""

    id: int
    run_id: int
    kind: str
    params: dict[str, Any]
    status: AnalysisStatus
    artifact_id: int | None
    error: str | None
    created_at: datetime
    progress: float  # from 0 to 1
    epoch: int
    control: Literal["", "cancel"]
    attempts: int  # how often a worker has begun it since it was asked for, less those that ended with their dispatcher
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def is_active(self) -> bool:
        """Queued or running: it will go on without anybody doing anything."""
        return self.status in ACTIVE


@dataclass(frozen=True)
class SavedViewRecord:
    """The choices of a page's address (``status=done&sort=mean``) under a name."""

    id: int
    page: str
    name: str
    query: str
    created_at: datetime


@dataclass(frozen=True)
class DiskUse:
    """What is stored, in bytes. The parts don't overlap: a deleted run's files count as trash alone."""

    database_bytes: int  # with what is on its way into it
    checkpoints_bytes: int
    models_bytes: int
    analyses_bytes: int
    trash_bytes: int
    free_bytes: int  # left on the disk; on the fuller one where database and artifacts lie on two


@dataclass(frozen=True)
class EngineRecord:
    """A live engine, for the screen only."""

    id: str
    host: str
    pid: int
    device: str
    slots: int
    running: int
    started_at: datetime
    heartbeat_at: datetime
