"""Validates the database of a backup of unknown origin: its tables, its rows and the files that they name.

A foreign database can contain triggers and views with side effects, overlapping pages, text in number columns and paths
that lead anywhere. Everything is checked on the unpacked copy, before it replaces anything.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from math import isfinite, prod
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import numpy as np
import sqlalchemy as sa

from storage import schema
from storage.archive import Member
from storage.array_codec import SPARSE
from storage.artifact_folder import KIND, NAME
from storage.errors import ArchiveInvalid, StorageError
from storage.models import (
    Analysis,
    Artifact,
    Base,
    ClientMetric,
    ClusterAssignment,
    Id,
    Partition,
    Round,
    Run,
    UtcDateTime,
)
from storage.records import AnalysisStatus, Control, RunRecord, Status
from storage.run_queue import run_records, select_runs
from storage.sqlite import SQLite, driver

Shape = tuple[int, ...]
CheckRun = Callable[[RunRecord], None]  # raises if a run's JSON documents are invalid

LEVELS = ("info", "warning", "error")
RUNS_AT_ONCE = 100  # limits memory
MAX_SPARSE = 10**7  # values of a sparse array, which are not all in the file
DTYPE = re.compile(r"[<|][biuf][1248]")
SHAPE = re.compile(r"([0-9]{1,10}(,[0-9]{1,10})*)?")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}")
PER_CLIENT = re.compile(
    r"(personalized|global)\..*|train_loss"
    r"|diagnostics\.(aggregator\.weight|arrived|privacy\.epsilon|residual_norm|speed|update_cosine|update_norm)"
)
ALLOWED = {
    "runs.status": get_args(Status),
    "runs.control": get_args(Control),
    "events.level": LEVELS,
    "analyses.status": get_args(AnalysisStatus),
    "analyses.control": ("", "cancel"),
}
MINIMUM = {
    "runs.rounds": 1,
    "runs.round": -1,
    "runs.epoch": 0,
    "runs.position": 0,
    "rounds.round": 0,
    "artifacts.round": 0,
    "artifacts.size_bytes": 0,
    "analyses.epoch": 0,
    "analyses.attempts": 0,
}


def check_file(path: Path, revision: str) -> None:
    """Checks that the file is intact and has exactly the tables of ``revision``. Raises ArchiveInvalid.

    Nothing else is read before the table definitions are known to be ours.
    """
    try:
        with closing(driver().connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA cell_size_check=ON")
            _check_definitions(connection, revision)
            if (found := connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise ArchiveInvalid(f"its database is damaged ({found})")
            if (row := connection.execute("PRAGMA foreign_key_check").fetchone()) is not None:
                raise ArchiveInvalid(f"its database has a row in {row[0]} without its parent in {row[2]}")
            stored = [row[0] for row in connection.execute("SELECT version_num FROM alembic_version")]
    except driver().Error as error:
        raise ArchiveInvalid(f"its database cannot be read ({error})") from error
    if stored != [revision]:
        raise ArchiveInvalid(f"its database has schema {stored}, but its manifest names {revision!r}")


def check_rows(database: SQLite, files: Mapping[str, Member], check_run: CheckRun) -> int:
    """Checks every value against its column, and every artifact against its row. Returns the number of runs.

    ``files`` are the artifacts of the backup by path. Raises ArchiveInvalid, or what ``check_run`` raises.
    """
    try:
        with database.read() as connection:
            for table in Base.metadata.sorted_tables:
                _check_values(connection, table)
            _check_artifacts(connection, files)
            _check_arrays(connection)
            return _check_runs(connection, check_run)
    except StorageError as error:
        if isinstance(error, ArchiveInvalid):
            raise
        raise ArchiveInvalid(f"its database cannot be read ({error.__cause__ or error})") from error


# Tables.


def _check_definitions(connection: Any, revision: str) -> None:
    rows = connection.execute(schema.DEFINITIONS).fetchall()
    found, expected = frozenset(map(schema.normalized, rows)), schema.definitions_of(revision)
    for kind, name, *_ in sorted(found - expected, key=str):
        raise ArchiveInvalid(f"its database has {kind} {name!r}, which differs from schema {revision}")
    for kind, name, *_ in sorted(expected - found, key=str):
        raise ArchiveInvalid(f"its database has no {kind} {name!r}, which schema {revision} has")


# Rows.


def _check_values(connection: sa.Connection, table: sa.Table) -> None:
    rows, *unexpected = connection.execute(
        sa.select(sa.func.count(), *map(_unexpected_class, table.columns)).select_from(table)
    ).one()
    for column, found in zip(table.columns, unexpected, strict=True):
        with _errors_about(f"{table.name}.{column.name}"):
            if found is not None:
                raise ValueError(f"has a value of type {found}; it must be {_storage_classes(column)[0]}")
            if rows:
                _check_column(connection, column)


def _unexpected_class(column: sa.Column[Any]) -> sa.ColumnElement[str | None]:
    """A storage class that is not allowed among the column's values, or NULL."""
    found = sa.func.typeof(column)
    return sa.func.min(sa.case((found.not_in(_storage_classes(column)), found)))


def _check_column(connection: sa.Connection, column: sa.Column[Any]) -> None:
    raw = sa.type_coerce(column, sa.String)
    if isinstance(column.type, sa.Boolean):
        found = connection.scalars(sa.select(sa.type_coerce(column, sa.Integer)).distinct())
        _check_all(found, lambda v: v in (0, 1, None))
    elif isinstance(column.type, sa.JSON):
        for text in connection.scalars(sa.select(raw).where(column.is_not(None))):
            _check_json(text)
    elif isinstance(column.type, UtcDateTime):
        _check_all(connection.scalars(sa.select(raw).where(column.is_not(None)).distinct()), _is_time)
    elif isinstance(column.type, sa.String):
        allowed = ALLOWED.get(str(column))
        _check_all(connection.scalars(sa.select(column).distinct()), lambda v: allowed is None or v in allowed)
    elif (minimum := MINIMUM.get(str(column))) is not None:
        smallest = connection.scalar(sa.select(sa.func.min(column)))
        _check_all([smallest], lambda v: v is None or v >= minimum)


def _storage_classes(column: sa.Column[Any]) -> tuple[str, ...]:
    """The storage classes that SQLite may report for the values of a column."""
    kinds: tuple[tuple[Any, tuple[str, ...]], ...] = (
        (sa.LargeBinary, ("blob",)),
        (sa.Float, ("real", "integer")),
        ((sa.Integer, Id), ("integer",)),
        (sa.Boolean, ("integer",)),
    )
    found = next((names for kind, names in kinds if isinstance(column.type, kind)), ("text",))
    return (*found, "null") if column.nullable else found


def _check_json(text: str) -> None:
    try:
        value = json.loads(text, parse_constant=_reject_constant, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")


def _parse_finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is too large")
    return value


def _is_time(text: str) -> bool:
    try:
        return bool(TIME.fullmatch(text) and datetime.fromisoformat(text))
    except ValueError:
        return False


def _check_all(values: Iterable[Any], is_valid: Callable[[Any], bool]) -> None:
    for value in values:
        if not is_valid(value):
            raise ValueError(f"{str(value)[:100]!r} is not allowed")


@contextmanager
def _errors_about(what: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ArchiveInvalid(f"its database: {what} {error}") from error


# What the rows refer to.


def _check_artifacts(connection: sa.Connection, files: Mapping[str, Member]) -> None:
    rows = connection.execute(
        sa.select(Artifact.run_id, Artifact.kind, Artifact.round, Artifact.path, Artifact.sha256, Artifact.size_bytes)
    ).all()
    for row in rows:
        prefix = f"{row.run_id}/{row.kind}-{row.round:06d}-"
        if not re.fullmatch(KIND, row.kind) or not NAME.fullmatch(row.path) or not row.path.startswith(prefix):
            raise ArchiveInvalid(f"its database names the file {row.path[:100]!r}, which is not a valid artifact name")
        if files.get(row.path) != Member(row.sha256, row.size_bytes):
            raise ArchiveInvalid(f"its database names the file {row.path!r}, which is missing or was changed")
    if extra := files.keys() - {row.path for row in rows}:
        raise ArchiveInvalid(f"{min(extra)[:100]!r} belongs to no run")
    joined = sa.select(Analysis.id).join(Artifact, Artifact.id == Analysis.artifact_id)
    if (found := connection.scalar(joined.where(Artifact.run_id != Analysis.run_id).limit(1))) is not None:
        raise ArchiveInvalid(f"its database: analysis {found} has the result of another run")


def _check_arrays(connection: sa.Connection) -> None:
    """Checks that each blob has the length of its shape, and per-client arrays one value per client."""
    c = ClientMetric
    layouts = connection.execute(sa.select(c.run_id, c.name, c.dtype, c.shape, sa.func.length(c.data)).distinct()).all()
    clients, unseen = _clients(connection)
    for run_id, name, dtype, shape, length in layouts:
        with _errors_about(f"{name[:100]} of run {run_id}"):
            sizes = _sizes(dtype, shape, length)
            if dtype.startswith(SPARSE):
                _check_sparse(connection, run_id, name, length)
            of = clients if PER_CLIENT.fullmatch(name) else unseen if name.startswith("unseen.") else None
            if of is not None and sizes != (needed := of.setdefault(run_id, sizes[:1])):
                raise ValueError(f"has shape {list(sizes)}; it must be {list(needed)}")
    labels = sa.select(ClusterAssignment.run_id, sa.func.length(ClusterAssignment.labels)).distinct()
    for run_id, length in connection.execute(labels):
        if length and (length,) != tuple(2 * N for N in clients.get(run_id, (length // 2,))):
            raise ArchiveInvalid(f"its database: the clusters of run {run_id} do not have one entry per client")
    for run_id, cohort in connection.execute(sa.select(Round.run_id, Round.cohort)):
        members = np.frombuffer(cohort, "<i4") if len(cohort) % 4 == 0 else np.array([-1])
        if len(members) and not 0 <= members.min() <= members.max() < (clients.get(run_id) or (2**31,))[0]:
            raise ArchiveInvalid(f"its database: a cohort of run {run_id} names unknown clients")


def _clients(connection: sa.Connection) -> tuple[dict[int, Shape], dict[int, Shape]]:
    """The numbers of clients (N,) and of unseen clients (U,) of each run with a known partition."""
    clients: dict[int, Shape] = {}
    unseen: dict[int, Shape] = {}
    for run_id, partition in connection.execute(sa.select(Partition.run_id, Partition.partition)):
        with _errors_about(f"the partition of run {run_id}"):
            clients[run_id] = (_count(partition),)
            unseen[run_id] = (_count(unseen_part) if (unseen_part := partition.get("unseen")) else 0,)
    return clients, unseen


def _count(partition: Any) -> int:
    sizes = partition.get("test_sizes") if isinstance(partition, dict) else None
    if not isinstance(sizes, list):
        raise ValueError("lacks test_sizes")
    return len(sizes)


def _sizes(dtype: str, shape: str, length: int) -> Shape:
    plain = dtype.removeprefix(SPARSE)
    if not DTYPE.fullmatch(plain) or not SHAPE.fullmatch(shape):
        raise ValueError(f"has an invalid dtype {dtype[:20]!r} or shape {shape[:40]!r}")
    sizes = tuple(int(size) for size in shape.split(",") if size)
    try:
        size = np.dtype(plain).itemsize
    except TypeError as error:
        raise ValueError(f"has an invalid dtype {dtype!r}") from error
    if plain != dtype:
        if len(sizes) != 1 or sizes[0] > MAX_SPARSE or np.dtype(plain).kind != "f" or length % (4 + size):
            raise ValueError(f"has {length} bytes and shape {list(sizes)}, which cannot be {dtype}")
        return sizes
    needed = size * prod(sizes)
    if length != needed:
        raise ValueError(f"has {length} bytes, but {dtype}[{shape}] needs {needed}")
    return sizes


def _check_sparse(connection: sa.Connection, run_id: int, name: str, length: int) -> None:
    """Checks that the indices of sparse arrays are ascending clients."""
    c = ClientMetric
    rows = sa.select(c.dtype, c.shape, c.data).where(c.run_id == run_id, c.name == name, c.dtype.startswith(SPARSE))
    for dtype, shape, data in connection.execute(rows.where(sa.func.length(c.data) == length)):
        count = len(data) // (4 + np.dtype(dtype.removeprefix(SPARSE)).itemsize)
        bounded = np.concatenate([[-1], np.frombuffer(data, "<i4", count), [int(shape)]])
        if (np.diff(bounded) <= 0).any():
            raise ValueError("has values of clients that do not exist, or twice")


def _check_runs(connection: sa.Connection, check_run: CheckRun) -> int:
    """Checks every run, including those in the trash. Returns their number."""
    ids = connection.scalars(sa.select(Run.id).order_by(Run.id)).all()
    for at in range(0, len(ids), RUNS_AT_ONCE):
        batch = select_runs(include_deleted=True).where(Run.id.in_(ids[at : at + RUNS_AT_ONCE]))
        for record in run_records(connection, batch):
            check_run(record)
    return len(ids)
