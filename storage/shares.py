"""The usage of each owner: runs, computing time of the last 24 hours, and disk."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from storage.database import Database, hold_lock
from storage.models import Analysis, Artifact, Experiment, PastCompute, Run, Share, UtcDateTime, now
from storage.records import Usage

DAY = timedelta(hours=24)
AHEAD = timedelta(hours=1)  # of our clock; an end after that was stored while a clock was wrong, and does not count
LOCK = 0x6665_6473_6361_7065  # the key of an advisory lock of PostgreSQL


@dataclass(frozen=True)
class Limits:
    """The limits of each owner; None means unlimited."""

    queued: int | None = None  # runs that are queued or paused, and queued analyses
    running: int | None = None
    day_s: float | None = None  # seconds of computing in 24 hours
    disk_bytes: float | None = None


class ComputeTime(NamedTuple):
    """Of a run or an analysis; named as the columns of ``PastCompute``."""

    owner: str
    ended_at: datetime
    seconds: float


class Shares:
    def __init__(self, database: Database) -> None:
        self._database = database

    def usage(self, owner: str) -> Usage:
        with self._database.read() as connection:
            return usage(connection, owner)


def usage(connection: sa.Connection, owner: str) -> Usage:
    """The usage as seen inside the caller's transaction."""
    own = Experiment.owner == owner
    runs = sa.select(Run.status, sa.func.count()).join(Experiment).where(own, Run.deleted_at.is_(None))
    counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(runs.group_by(Run.status))}
    analyses = sa.select(sa.func.count()).select_from(Analysis).join(Run).join(Experiment)
    size = sa.select(sa.func.coalesce(sa.func.sum(Artifact.size_bytes), 0)).join(Run).join(Experiment).where(own)
    return Usage(
        queued=counts.get("queued", 0) + counts.get("paused", 0),
        running=counts.get("running", 0),
        analyses=connection.scalar(analyses.where(own, Analysis.status == "queued", Run.deleted_at.is_(None))) or 0,
        computed=computed(connection, owner),
        artifact_bytes=int(connection.scalar(size) or 0),
    )


def computed(connection: sa.Connection, owner: str) -> tuple[tuple[datetime, float], ...]:
    """(end, seconds) of the owner's runs and analyses of the last 24 hours, oldest first; running ones end now.

    A run counts in full until 24 hours after its end, and waiting between its rounds does not count.
    """
    own = Experiment.owner == owner
    past = sa.select(PastCompute.ended_at, PastCompute.seconds)
    past = past.where(PastCompute.owner == owner, _is_recent(PastCompute.ended_at))
    found = [(row.ended_at, row.seconds) for row in connection.execute(past)]
    found += [(one.ended_at, one.seconds) for of in (_of_runs, _of_analyses) for one in of(connection, own)]
    return tuple(sorted(found))


def over_day(connection: sa.Connection, day_s: float) -> list[str]:
    """The owners with queued runs who have used ``day_s`` seconds or more of the last 24 hours."""
    waiting = sa.select(Experiment.owner).join(Run).where(Run.status == "queued", Experiment.owner != "").distinct()
    owners = connection.scalars(waiting).all()
    return [owner for owner in owners if sum(seconds for _, seconds in computed(connection, owner)) >= day_s]


def serve(connection: sa.Connection, owner: str) -> None:
    """Record that a run of the owner was just claimed, after all earlier claims even if the clock was set back."""
    if not owner:
        return
    last = connection.scalar(sa.select(sa.func.max(Share.served_at)))
    at = now() if last is None else max(now(), last + timedelta(microseconds=1))
    if connection.execute(sa.update(Share).where(Share.owner == owner).values(served_at=at)).rowcount == 0:
        connection.execute(sa.insert(Share).values(owner=owner, served_at=at))


def keep_compute(connection: sa.Connection, runs: sa.ColumnElement[bool], analyses: sa.ColumnElement[bool]) -> None:
    """Record the time of runs and analyses before they are deleted or repeated, in the same transaction."""
    owned = Experiment.owner != ""
    found = [*_of_runs(connection, owned & runs), *_of_analyses(connection, owned & analyses)]
    if found:
        connection.execute(sa.delete(PastCompute).where(PastCompute.ended_at <= now() - DAY))
        connection.execute(sa.insert(PastCompute), [dict(zip(ComputeTime._fields, one, strict=True)) for one in found])


def lock_usage(connection: sa.Connection) -> None:
    """Serialize checks of limits until the transaction ends. Otherwise two requests could exceed a limit together."""
    hold_lock(connection, LOCK)


def _of_runs(connection: sa.Connection, which: sa.ColumnElement[bool]) -> list[ComputeTime]:
    end = sa.func.coalesce(Run.finished_at, Run.heartbeat_at, type_=UtcDateTime)
    times = (end.label("end"), Run.started_at, Run.heartbeat_at, Run.seconds_per_round, Run.round)
    query = sa.select(Experiment.owner, *times).select_from(Run).join(Experiment)
    found = []
    for row in connection.execute(query.where(which, Run.started_at.is_not(None), _is_recent(end))):
        computed_until = min(row.end, row.heartbeat_at or row.end)  # a run that was paused can be cancelled long after
        seconds = (computed_until - row.started_at).total_seconds()
        if row.seconds_per_round is not None:
            seconds = min(seconds, row.seconds_per_round * (row.round + 1))
        found.append(ComputeTime(row.owner, row.end, max(seconds, 0.0)))
    return found


def _of_analyses(connection: sa.Connection, which: sa.ColumnElement[bool]) -> list[ComputeTime]:
    end = sa.func.coalesce(Analysis.finished_at, sa.literal(now(), UtcDateTime()), type_=UtcDateTime)
    query = sa.select(Experiment.owner, end.label("end"), Analysis.started_at)
    query = query.select_from(Analysis).join(Run).join(Experiment)
    rows = connection.execute(query.where(which, Analysis.started_at.is_not(None), _is_recent(end)))
    return [ComputeTime(row.owner, row.end, max((row.end - row.started_at).total_seconds(), 0.0)) for row in rows]


def _is_recent(end: Any) -> sa.ColumnElement[bool]:
    """Whether work with this end counts toward the last 24 hours."""
    at = now()
    return sa.and_(end > at - DAY, end <= at + AHEAD)
