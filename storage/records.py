"""The records that storage returns: frozen, with plain values and numpy arrays, never database rows.

Times are aware UTC datetimes. NaN occurs in arrays and scalars only; inside a dict it is None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np

Status = Literal["queued", "running", "paused", "done", "failed", "cancelled", "diverged"]  # as in the engine
Control = Literal["", "cancel", "pause"]
QueueMove = Literal["first", "earlier", "later", "last"]  # where to move a run in the queue
AnalysisStatus = Literal["queued", "running", "done", "failed", "cancelled"]

ACTIVE: tuple[Status, ...] = ("queued", "running")
UNFINISHED: tuple[Status, ...] = (*ACTIVE, "paused")
FINISHED: tuple[Status, ...] = ("done", "failed", "cancelled", "diverged")
RETRIABLE: tuple[Status, ...] = ("failed", "diverged", "cancelled")


@dataclass(frozen=True)
class NewRun:
    """A run to create: one algorithm, one seed, everything resolved."""

    algorithm: str
    label: str
    seed: int
    hparams: dict[str, Any]
    config: dict[str, Any]  # the resolved configuration of this run alone
    rounds: int
    digest: str  # equal digests: equal results
    cost: dict[str, Any] | None = None
    position: int | None = None  # in its experiment; None: as in the list of new runs


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """One stored round. Arrays keep dtype and shape; NaN means not measured."""

    round: int
    cohort: np.ndarray  # [S] int32
    scalars: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    clusters: np.ndarray | None = None  # [N] int16
    evaluated: bool = True


class FinishedFile(NamedTuple):
    """A model file of an imported run, read only when needed."""

    kind: str
    round: int
    read: Callable[[], bytes]


class FinishedAnalysis(NamedTuple):
    """An analysis of an imported run, with its result."""

    kind: str
    params: dict[str, Any]
    result: FinishedFile


class FinishedEvent(NamedTuple):
    """A log event of an imported run."""

    at: datetime
    level: str
    kind: str
    message: str


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that was computed elsewhere, to import with its rounds, models, analyses and events."""

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
    """A set of runs that were created together."""

    id: int
    name: str
    config: dict[str, Any]
    created_at: datetime
    archived: bool
    example: bool
    num_runs: int
    status_counts: dict[str, int]
    note: str = ""
    tags: tuple[str, ...] = ()
    owner: str = ""


@dataclass(frozen=True)
class RunRecord:
    """A run and its progress. ``round`` is the last committed one, -1 before the first."""

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
    note: str = ""
    tags: tuple[str, ...] = ()
    experiment_note: str = ""
    experiment_tags: tuple[str, ...] = ()
    owner: str = ""  # of its experiment; "" if it was queued without sign-in

    @property
    def is_active(self) -> bool:
        """Queued or running: it proceeds without user action."""
        return self.status in ACTIVE

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    @property
    def split(self) -> int:
        """The seed of the data split: ``data_seed``, or the run's own seed."""
        split: int = self.config.get("data_seed", self.seed)
        return split

    @property
    def is_tested(self) -> bool:
        """Whether it is evaluated on test data; trials of a study are not."""
        return (self.config.get("evaluation") or {}).get("on") != "val"

    @property
    def study(self) -> dict[str, Any] | None:
        """The run's place in a study (role, entry, split, trial, for some trials point), or None."""
        found: dict[str, Any] | None = self.config.get("study")
        return found

    @property
    def seeds_in_words(self) -> str:
        """``seed 0``; with a seed of its own for the data ``split 3, seed 0``."""
        return f"split {self.split}, seed {self.seed}" if "data_seed" in self.config else f"seed {self.seed}"


@dataclass(frozen=True, eq=False)
class TrialRecord:
    """A run that is a trial of a study, with its last evaluation on validation data; None before the first.

    NaN for clients without validation samples. ``gradients`` are those of all its rounds.
    """

    run: RunRecord
    accuracy: np.ndarray | None  # [N]
    loss: np.ndarray | None  # [N]
    sizes: np.ndarray | None  # [N] validation samples
    gradients: float
    malicious: np.ndarray | None = None  # [N], where there is an attack

    @property
    def entry(self) -> str:
        return str((self.run.study or {})["entry"])

    @property
    def split(self) -> int:
        return self.run.split

    @property
    def trial(self) -> int:
        return int((self.run.study or {})["trial"])


@dataclass(frozen=True)
class ChoiceRecord:
    """The trial that was chosen for a method (``entry``) on a split of a study."""

    experiment_id: int
    entry: str
    split: int
    trial: int  # 0: the defaults
    value: float | None  # what was selected by, on validation data; None: every trial failed
    error: float | None  # its standard error; None if not known
    considered: int  # trials
    tied: int  # trials within one error of the best, including it
    chosen_at: datetime


class NewArtifact(NamedTuple):
    """A file on disk that is not registered yet."""

    kind: str
    round: int
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ArtifactRecord:
    """A registered file; ``path`` is relative to the artifacts folder."""

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
    """One event of a run or of the whole installation."""

    id: int
    run_id: int | None
    at: datetime
    level: str
    kind: str
    message: str


@dataclass(frozen=True)
class AnalysisRecord:
    """An analysis of a finished run (landscape, features, ...): its progress, and the artifact of its result."""

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
    attempts: int  # since the request; one that was requeued counts only if its worker died
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def is_active(self) -> bool:
        """Queued or running: it proceeds without user action."""
        return self.status in ACTIVE


@dataclass(frozen=True)
class SavedViewRecord:
    """The query string of a page (``status=done&sort=mean``) under a name."""

    id: int
    page: str
    name: str
    query: str
    created_at: datetime


@dataclass(frozen=True)
class AuditRecord:
    """One line of the audit log: ``action`` is what ``person`` did with ``subject``."""

    id: int
    at: datetime
    person: str
    action: str
    subject: str


@dataclass(frozen=True)
class RoomRecord:
    """A lecturer's room. ``version`` grows with each change that readers see."""

    code: str
    key: str
    owner: str
    created_at: datetime
    lecturer_at: datetime
    version: int
    position: dict[str, Any]
    question: str  # "" if the position has none
    shows_answers: bool
    readers: int  # that polled recently, or have answered the question
    answered: int


@dataclass(frozen=True)
class Usage:
    """The current usage of an owner. ``computed`` has (end, seconds) of the work of the last 24 hours, oldest first."""

    queued: int  # runs that are queued or paused
    running: int
    analyses: int  # queued
    computed: tuple[tuple[datetime, float], ...]
    artifact_bytes: int


@dataclass(frozen=True)
class DiskUse:
    """Disk usage in bytes. The parts are disjoint: files of a deleted run count as trash only."""

    database_bytes: int  # including the write-ahead log
    checkpoints_bytes: int
    models_bytes: int
    analyses_bytes: int
    trash_bytes: int
    free_bytes: int  # on the fuller disk, if database and artifacts are on two


@dataclass(frozen=True)
class EngineRecord:
    """A machine that computes, for display only: the dispatcher's own, or a node of its cluster.

    Without a device, it is the machine of a dispatcher that cannot reach any machine; ``problem`` is the message then.
    """

    id: str
    host: str
    pid: int  # of the dispatcher
    device: str
    slots: int
    running: int
    started_at: datetime
    heartbeat_at: datetime
    cpus: int
    gpus: int
    problem: str  # why it gets no work

    @property
    def is_outage(self) -> bool:
        return not self.device
