"""The tables, one class per noun. A change here needs a new revision in ``migrations/versions``.

Per-client values are packed into one blob per (run, metric, round): a heat map of 200 rounds reads 200 blobs instead of
200 x N rows. Ids are never reused, so that a write to a deleted run cannot hit a newer one.
"""

import json
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

MAX_ID = 2**31 - 1  # of PostgreSQL's integers
NEVER_REUSE_IDS = {"sqlite_autoincrement": True}  # other databases use sequences, which never go back


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """Stored as naive UTC, which all databases support; aware datetimes on the Python side."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Id(sa.types.TypeDecorator[int]):
    """A larger number than ``MAX_ID``, which a URL may contain, is sent as -1: no row has that id either."""

    impl = sa.Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> int | None:
        return value if value is None or abs(value) <= MAX_ID else -1


class ErrorText(sa.types.TypeDecorator[str]):
    """A message that may come from any program. PostgreSQL cannot store its null characters."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else value.replace("\0", "\N{REPLACEMENT CHARACTER}")


class Words(sa.types.TypeDecorator[tuple[str, ...]]):
    """Stored as text, separated by spaces; a tuple on the Python side."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else " ".join(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> tuple[str, ...]:
        return tuple((value or "").split())


def now() -> datetime:
    return datetime.now(UTC)


def to_json(value: Any) -> str:
    """Standard JSON: numbers that are not finite become null, and numpy values become plain ones."""
    try:
        return json.dumps(value, allow_nan=False)  # the fast path, nearly always
    except (TypeError, ValueError):
        return json.dumps(_plain(value), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Base(DeclarativeBase):
    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: sa.JSON(none_as_null=True)}


def _of_run(primary_key: bool = False, **options: Any) -> Mapped[int]:
    return mapped_column(sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=primary_key, **options)


class Experiment(Base):
    __tablename__ = "experiments"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str]
    config: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    archived: Mapped[bool]
    example: Mapped[bool]
    note: Mapped[str] = mapped_column(default="")
    tags: Mapped[tuple[str, ...]] = mapped_column(Words, default=())
    owner: Mapped[str] = mapped_column(default="", index=True)  # "": queued without sign-in


class Run(Base):
    __tablename__ = "runs"
    __table_args__ = (
        sa.Index("ix_runs_experiment_id_position", "experiment_id", "position", unique=True),
        NEVER_REUSE_IDS,
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    experiment_id: Mapped[int] = mapped_column(sa.ForeignKey("experiments.id", ondelete="CASCADE"), index=True)
    position: Mapped[int]
    algorithm: Mapped[str]
    label: Mapped[str]
    seed: Mapped[int] = mapped_column(sa.BigInteger)
    hparams: Mapped[dict[str, Any]]
    config: Mapped[dict[str, Any]]
    digest: Mapped[str] = mapped_column(index=True)
    cost: Mapped[dict[str, Any] | None]
    status: Mapped[str] = mapped_column(index=True)
    rounds: Mapped[int]
    round: Mapped[int]
    epoch: Mapped[int]
    control: Mapped[str]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime | None]
    seconds_per_round: Mapped[float | None]
    error: Mapped[str | None] = mapped_column(ErrorText)
    worker: Mapped[str | None]
    provenance: Mapped[dict[str, Any] | None]
    summary: Mapped[dict[str, Any] | None]
    archived: Mapped[bool]
    priority: Mapped[int] = mapped_column(default=0)
    rank: Mapped[int] = mapped_column(default=0)  # among queued runs of one priority
    deleted_at: Mapped[datetime | None] = mapped_column(index=True)
    note: Mapped[str] = mapped_column(default="")
    tags: Mapped[tuple[str, ...]] = mapped_column(Words, default=())


class Partition(Base):
    """The data split of a run. In its own table, since it is large and ``runs`` is rewritten at every heartbeat."""

    __tablename__ = "partitions"

    run_id: Mapped[int] = _of_run(primary_key=True)
    partition: Mapped[dict[str, Any]]


class Round(Base):
    """A stored round and its cohort."""

    __tablename__ = "rounds"

    run_id: Mapped[int] = _of_run(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True)
    evaluated: Mapped[bool]
    cohort: Mapped[bytes]  # int32, little-endian


class RoundMetric(Base):
    """One number per round. The key order is that of reading curves; NULL means NaN."""

    __tablename__ = "round_metrics"
    __table_args__ = {"sqlite_with_rowid": False}  # little more than its key, which rowids would store twice

    run_id: Mapped[int] = _of_run(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[float | None]


class ClientMetric(Base):
    """One packed array per round, usually one value per client."""

    __tablename__ = "client_metrics"

    run_id: Mapped[int] = _of_run(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True)
    dtype: Mapped[str]
    shape: Mapped[str]
    data: Mapped[bytes]


class ClusterAssignment(Base):
    """The cluster of every client from this round on; empty: no clusters from this round on."""

    __tablename__ = "cluster_assignments"

    run_id: Mapped[int] = _of_run(primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True)
    labels: Mapped[bytes]  # int16, little-endian


class Artifact(Base):
    __tablename__ = "artifacts"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    run_id: Mapped[int] = _of_run(index=True)
    kind: Mapped[str]
    round: Mapped[int]
    path: Mapped[str] = mapped_column(unique=True)
    sha256: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(sa.BigInteger)
    created_at: Mapped[datetime]


class Analysis(Base):
    __tablename__ = "analyses"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    run_id: Mapped[int] = _of_run(index=True)
    kind: Mapped[str]
    params: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(index=True)
    artifact_id: Mapped[int | None] = mapped_column(sa.ForeignKey("artifacts.id", ondelete="SET NULL"), index=True)
    error: Mapped[str | None] = mapped_column(ErrorText)
    created_at: Mapped[datetime]
    progress: Mapped[float]
    epoch: Mapped[int]
    control: Mapped[str]
    attempts: Mapped[int]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class Choice(Base):
    """The trial that was chosen for a method on a split of a study."""

    __tablename__ = "choices"

    experiment_id: Mapped[int] = mapped_column(sa.ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True)
    entry: Mapped[str] = mapped_column(primary_key=True)
    split: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    trial: Mapped[int]
    value: Mapped[float | None]
    error: Mapped[float | None]
    considered: Mapped[int]
    tied: Mapped[int]
    chosen_at: Mapped[datetime]


class Event(Base):
    __tablename__ = "events"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    run_id: Mapped[int | None] = _of_run(index=True)
    at: Mapped[datetime]
    level: Mapped[str]
    kind: Mapped[str]
    message: Mapped[str] = mapped_column(ErrorText)


class SavedView(Base):
    """The query string of a page under a name."""

    __tablename__ = "saved_views"
    __table_args__ = (sa.UniqueConstraint("page", "name"), NEVER_REUSE_IDS)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    page: Mapped[str]
    name: Mapped[str]
    query: Mapped[str]
    created_at: Mapped[datetime]


class Share(Base):
    """The time at which a run of an owner was last claimed, for the order of the queue."""

    __tablename__ = "shares"

    owner: Mapped[str] = mapped_column(primary_key=True)
    served_at: Mapped[datetime]


class PastCompute(Base):
    """Computing time of deleted or repeated runs and analyses, which still counts toward limits."""

    __tablename__ = "past_compute"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    owner: Mapped[str]
    ended_at: Mapped[datetime]
    seconds: Mapped[float]


class AuditEntry(Base):
    """An entry of the audit log. Has no key of a run, since entries are kept when runs are deleted."""

    __tablename__ = "audit_entries"
    __table_args__ = NEVER_REUSE_IDS

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    at: Mapped[datetime]
    person: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]


class Room(Base):
    """A lecturer's room. ``key`` is a digest of the secret of the browser that opened it, and of the code."""

    __tablename__ = "rooms"

    code: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str]
    owner: Mapped[str]  # "": opened without sign-in
    created_at: Mapped[datetime]
    lecturer_at: Mapped[datetime]
    version: Mapped[int]
    position: Mapped[dict[str, Any]]
    question: Mapped[str]  # "": the position has none
    shows_answers: Mapped[bool]


class RoomReader(Base):
    """A browser in a room. ``reader`` is a digest of its secret and the code."""

    __tablename__ = "room_readers"

    room: Mapped[str] = mapped_column(sa.ForeignKey("rooms.code", ondelete="CASCADE"), primary_key=True)
    reader: Mapped[str] = mapped_column(primary_key=True)
    seen_at: Mapped[datetime]


class RoomAnswer(Base):
    """A reader's answer to a question of a room."""

    __tablename__ = "room_answers"
    __table_args__ = (
        sa.ForeignKeyConstraint(["room", "reader"], ["room_readers.room", "room_readers.reader"], ondelete="CASCADE"),
    )

    room: Mapped[str] = mapped_column(primary_key=True)
    question: Mapped[str] = mapped_column(primary_key=True)
    reader: Mapped[str] = mapped_column(primary_key=True)
    answer: Mapped[str]


class Engine(Base):
    __tablename__ = "engines"

    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    device: Mapped[str]
    slots: Mapped[int]
    running: Mapped[int]
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]
    cpus: Mapped[int] = mapped_column(server_default="0")
    gpus: Mapped[int] = mapped_column(server_default="0")
    problem: Mapped[str] = mapped_column(server_default="")
