"""Runs: asked for, claimed by the dispatcher, owned by one worker at a time, finished.

queued -> running -> done | failed | diverged | cancelled
   ^         |
   +- paused-+            a claim raises ``epoch``; only the holder of the current epoch may write to the run
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Literal, cast

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, aliased

from storage.artifacts import ArtifactStore
from storage.database import Database
from storage.errors import RunNotFound, RunsActive
from storage.metrics import insert_rounds, pack_rounds
from storage.models import Artifact, Experiment, Partition, Run, UtcDateTime, now
from storage.ownership import update_owned
from storage.queue_order import moved
from storage.records import FINISHED, Control, NewRun, Place, RoundRecord, RunRecord, Status

MAX_ID = 2**63 - 1  # what a database can hold; a larger id, out of an address bar say, is no run's
IN_USE = Run.deleted_at.is_(None)
TURN = (Run.priority.desc(), Run.rank, Run.id)  # the order in which queued runs are claimed


class RunQueue:
    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database, self._artifacts = database, artifacts

    def runs(
        self,
        *,
        experiment_ids: Sequence[int] | None = None,
        run_ids: Sequence[int] | None = None,
        statuses: Sequence[Status] | None = None,
        include_archived: bool = False,
        limit: int | None = None,
        newest_first: bool = True,
        with_partition: bool = True,
    ) -> list[RunRecord]:
        """Runs that meet all conditions. Long lists are quicker ``with_partition=False``."""
        run_ids = None if run_ids is None else [i for i in run_ids if abs(i) <= MAX_ID]
        asked = {"experiment_id": experiment_ids, "id": run_ids, "status": statuses}
        allowed: dict[str, Any] = {name: list(values) for name, values in asked.items() if values is not None}
        query = _query(frozenset(allowed), with_partition, include_archived, newest_first, limit is not None)
        with self._database.read() as connection:
            return run_records(connection, query, allowed | ({} if limit is None else {"limit": limit}))

    def get(self, run_id: int) -> RunRecord:
        with self._database.read() as connection:
            return _get(connection, run_id)

    def find_by_digest(self, digests: Iterable[str]) -> list[RunRecord]:
        """Runs of the same resolved configuration and seed, whatever their status; newest first."""
        with self._database.read() as connection:
            return run_records(connection, select_runs().where(Run.digest.in_(tuple(digests))).order_by(Run.id.desc()))

    def repeats(self, run_ids: Sequence[int]) -> dict[int, int]:
        """Of each run that was queued again in its experiment: the newest run of the same configuration and name."""
        later = aliased(Run)
        same = (getattr(later, name) == getattr(Run, name) for name in ("experiment_id", "digest", "label"))
        query = (
            sa.select(Run.id, sa.func.max(later.id))
            .join(later, sa.and_(*same, later.id > Run.id, later.deleted_at.is_(None)))
            .where(Run.id.in_([i for i in run_ids if abs(i) <= MAX_ID]))
            .group_by(Run.id)
        )
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def counts(self) -> dict[str, int]:
        """How many runs there are of each status that occurs."""
        counted = sa.select(Run.status, sa.func.count()).where(IN_USE).group_by(Run.status)
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(counted)}

    def ids(self, statuses: Sequence[Status]) -> list[int]:
        """Of runs that stand so, archived or not, lowest first: quicker than the runs themselves."""
        query = sa.select(Run.id).where(Run.status.in_(statuses), IN_USE).order_by(Run.id)
        with self._database.read() as connection:
            return list(connection.scalars(query))

    def waiting(self) -> list[RunRecord]:
        """Queued runs in the order in which they will be claimed."""
        query = select_runs(with_partition=False).where(Run.status == "queued").order_by(*TURN)
        with self._database.read() as connection:
            return run_records(connection, query)

    # What the dispatcher does.

    def claim(self, run_ids: Sequence[int] | None = None) -> RunRecord | None:
        """Takes the queued run whose turn it is (of ``run_ids``), or None. Only its new epoch may write to it now."""
        following = sa.select(Run.id).where(Run.status == "queued", IN_USE).order_by(*TURN).limit(1)
        if run_ids is not None:
            following = following.where(Run.id.in_(run_ids))
        at = now()
        with self._database.write() as connection:
            run_id = connection.scalar(following.with_for_update(skip_locked=True))
            if run_id is None:
                return None
            connection.execute(
                sa.update(Run)
                .where(Run.id == run_id)
                .values(
                    status="running",
                    epoch=Run.epoch + 1,
                    control="",
                    heartbeat_at=at,
                    finished_at=None,
                    error=None,
                    worker=None,
                    started_at=sa.func.coalesce(Run.started_at, sa.literal(at, UtcDateTime())),
                )
            )
            return _get(connection, run_id)

    def requeue_running(self) -> list[int]:
        """At the dispatcher's start: nobody owns these runs. Answers those that will run again.

        A run that was asked to cancel or pause before its worker died is cancelled or paused.
        """
        with self._database.write() as connection:
            rows = connection.execute(_let_go().returning(Run.id, Run.status)).all()
        return sorted(row.id for row in rows if row.status == "queued")

    def requeue(self, run_id: int, epoch: int) -> Status:
        """After its worker died: queued again, or what it was asked to become. Fenced; answers the new status."""
        with self._database.write() as connection:
            update_owned(connection, run_id, epoch, heartbeat_at=now())
            return cast(Status, connection.scalars(_let_go().where(Run.id == run_id).returning(Run.status)).one())

    # What the owner of a run does; all of it is fenced.

    def heartbeat(self, run_id: int, epoch: int, seconds_per_round: float | None = None) -> Control:
        """For the screen only. Answers what the run is asked to do."""
        values: dict[str, Any] = {"heartbeat_at": now()}
        if seconds_per_round is not None:
            values["seconds_per_round"] = seconds_per_round
        with self._database.write() as connection:
            return update_owned(connection, run_id, epoch, **values)

    def describe(
        self,
        run_id: int,
        epoch: int,
        provenance: dict | None = None,
        partition: dict | None = None,
        worker: str | None = None,
    ) -> None:
        """Where the run is computed, and on what; what is None stays as it was."""
        values: dict[str, Any] = {"heartbeat_at": now(), "provenance": provenance, "worker": worker}
        with self._database.write() as connection:
            update_owned(connection, run_id, epoch, **{k: v for k, v in values.items() if v is not None})
            if partition is not None:
                put_partition(connection, run_id, partition)

    def finish(
        self,
        run_id: int,
        epoch: int,
        status: Status,
        error: str | None = None,
        summary: dict | None = None,
        rounds: Sequence[RoundRecord] = (),
    ) -> Status:
        """The last write of an owner, with the rounds not stored yet. Answers what the run is now.

        A run that was to pause is cancelled, or queued again, where that was asked for in the meantime.
        """
        values: dict[str, Any] = {"status": status, "error": error, "control": "", "heartbeat_at": now()}
        if status == "paused":
            values |= _as_asked()
        elif status in FINISHED:
            values["finished_at"] = now()
        if summary is not None:
            values["summary"] = summary
        if rounds:
            values["round"] = rounds[-1].round
        packed = pack_rounds(rounds)
        with self._database.write() as connection:
            update_owned(connection, run_id, epoch, **values)
            insert_rounds(connection, run_id, packed)
            return cast(Status, connection.scalar(sa.select(Run.status).where(Run.id == run_id)))

    # What a person asks for.

    def request(self, run_ids: Sequence[int], control: Literal["cancel", "pause"]) -> None:
        """At once where nobody is computing; a running run reads it with its next write. Finished runs stay."""
        running = Run.status == "running"
        if control == "cancel":
            asked = sa.update(Run).where(Run.status.in_(("queued", "paused", "running")))
            end = {"status": "cancelled", "finished_at": sa.literal(now(), UtcDateTime())}
        else:
            asked = sa.update(Run).where(Run.status.in_(("queued", "running")), Run.control != "cancel")
            end = {"status": "paused"}
        values = {name: sa.case((running, getattr(Run, name)), else_=value) for name, value in end.items()}
        values["control"] = sa.case((running, control), else_="")
        with self._database.write() as connection:  # one statement: a claim comes before or after it, not in between
            connection.execute(asked.where(Run.id.in_(run_ids)).values(values))

    def resume(self, run_ids: Sequence[int]) -> None:
        """Paused runs are queued again; a pause that was asked for and not obeyed yet is taken back."""
        status = sa.case((Run.status == "paused", "queued"), else_=Run.status)
        asked = sa.update(Run).where(Run.id.in_(run_ids), (Run.status == "paused") | (Run.control == "pause"))
        with self._database.write() as connection:
            connection.execute(asked.values(status=status, control=""))

    def prioritize(self, run_ids: Sequence[int], priority: int) -> None:
        """Larger comes first; 0 is what a run has by itself. It counts whenever the run waits."""
        with self._database.write() as connection:
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids)).values(priority=priority))

    def move(self, run_ids: Sequence[int], to: Place) -> None:
        """Queued runs, in the order they have, among those of their own priority; others stay as they are."""
        waiting = sa.select(Run.id, Run.priority, Run.rank).where(Run.status == "queued", IN_USE).order_by(*TURN)
        with self._database.write() as connection:
            rows = connection.execute(waiting.with_for_update()).all()
            for priority in {row.priority for row in rows if row.id in run_ids}:
                equals = [row for row in rows if row.priority == priority]
                order = moved([row.id for row in equals], set(run_ids), to)
                before = {row.id: row.rank for row in equals}
                # Negative, so that what is queued later, at rank 0, comes after them.
                for rank, run_id in enumerate(order, -len(order)):
                    if before[run_id] != rank:
                        connection.execute(sa.update(Run).where(Run.id == run_id).values(rank=rank))

    def rerun(self, run_ids: Sequence[int]) -> list[RunRecord]:
        """New queued runs beside the old ones, from the same configurations."""
        with self._database.write() as connection:
            old = run_records(connection, select_runs(with_partition=False).where(Run.id.in_(run_ids)).order_by(Run.id))
            if missing := set(run_ids) - {run.id for run in old}:
                raise RunNotFound(missing)
            ids = [_insert_again(connection, run) for run in old]
            return run_records(connection, select_runs().where(Run.id.in_(ids)).order_by(Run.id))

    def retry(self, run_ids: Sequence[int], statuses: Sequence[Status] = ("failed", "diverged")) -> list[RunRecord]:
        """Reruns those that ended so, one for each, in the order of their ids.

        Where somebody has done so just before, and the new run has not ended, it is that one.
        """
        failed = select_runs(with_partition=False).where(Run.id.in_(run_ids), Run.status.in_(statuses))
        with self._database.write() as connection:
            old = run_records(connection, failed.order_by(Run.id).with_for_update(of=Run))
            again = _under_way(connection, {run.experiment_id for run in old})
            for run in old:
                if (run.experiment_id, run.digest) not in again:
                    again[run.experiment_id, run.digest] = _insert_again(connection, run)
            query = select_runs().where(Run.id.in_(again.values()))
            new = {(run.experiment_id, run.digest): run for run in run_records(connection, query)}
        return [new[run.experiment_id, run.digest] for run in old]

    def archive(self, run_ids: Sequence[int], archived: bool = True) -> None:
        """Out of sight, or back in it; nothing else changes."""
        with self._database.write() as connection:
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids)).values(archived=archived))

    def delete(self, run_ids: Sequence[int]) -> None:
        """Rows and files, and experiments left without runs, for good. Raises RunsActive, and deletes none, if one is
        running.
        """
        with self._database.write() as connection:
            paths = delete_runs(connection, run_ids)
        self._artifacts.remove_files(paths)


def insert_run(connection: sa.Connection, experiment_id: int, position: int, run: NewRun, **values: Any) -> int:
    """A queued run, inside the caller's transaction; ``values`` replace what a new run starts with."""
    row = (
        vars(run)
        | {
            "experiment_id": experiment_id,
            "position": position,
            "status": "queued",
            "round": -1,
            "epoch": 0,
            "control": "",
            "created_at": now(),
            "archived": False,
            "priority": 0,
            "rank": 0,
        }
        | values
    )
    return connection.execute(sa.insert(Run).values(row).returning(Run.id)).scalar_one()


def put_partition(connection: sa.Connection, run_id: int, partition: dict) -> None:
    connection.execute(sa.delete(Partition).where(Partition.run_id == run_id))
    connection.execute(sa.insert(Partition).values(run_id=run_id, partition=partition))


def delete_runs(connection: sa.Connection, run_ids: Sequence[int]) -> list[str]:
    """Inside the caller's transaction; answers the files to remove after it."""
    refuse_running(connection, run_ids)
    touched = set(connection.scalars(sa.select(Run.experiment_id).where(Run.id.in_(run_ids))))
    paths = connection.scalars(sa.select(Artifact.path).where(Artifact.run_id.in_(run_ids))).all()
    connection.execute(sa.delete(Run).where(Run.id.in_(run_ids)))
    empty = ~sa.exists().where(Run.experiment_id == Experiment.id)
    connection.execute(sa.delete(Experiment).where(Experiment.id.in_(touched), empty))
    return list(paths)


def refuse_running(connection: sa.Connection, run_ids: Sequence[int]) -> None:
    rows = connection.execute(sa.select(Run.id, Run.status).where(Run.id.in_(run_ids)).with_for_update()).all()
    if running := [row.id for row in rows if row.status == "running"]:
        raise RunsActive(running)


def select_runs(with_partition: bool = True, in_use: bool = True) -> sa.Select:
    """The columns of a RunRecord, in its order."""
    elsewhere: dict[str, sa.ColumnElement | InstrumentedAttribute] = {
        "experiment_name": Experiment.name,
        "example": Experiment.example,
        "partition": Partition.partition if with_partition else sa.null().label("partition"),
    }
    columns = (elsewhere[f.name] if f.name in elsewhere else getattr(Run, f.name) for f in fields(RunRecord))
    query = sa.select(*columns).select_from(Run).join(Experiment)
    if with_partition:
        query = query.outerjoin(Partition, Partition.run_id == Run.id)
    return query.where(IN_USE) if in_use else query


@cache
def _query(
    conditions: frozenset[str], with_partition: bool, include_archived: bool, newest_first: bool, is_limited: bool
) -> sa.Select:
    """Made once: SQLAlchemy has everything ready for a statement that it has seen, down to the columns of its rows."""
    query = select_runs(with_partition)
    for name in sorted(conditions):
        query = query.where(getattr(Run, name).in_(sa.bindparam(name, expanding=True)))
    if not include_archived:
        query = query.where(Run.archived.is_(False), Experiment.archived.is_(False))
    query = query.order_by(Run.id.desc() if newest_first else Run.id)
    return query.limit(sa.bindparam("limit", type_=sa.Integer)) if is_limited else query


def run_records(
    connection: sa.Connection, query: sa.Select, parameters: Mapping[str, Any] | None = None
) -> list[RunRecord]:
    return [RunRecord(*row) for row in connection.execute(query, parameters)]


def _get(connection: sa.Connection, run_id: int) -> RunRecord:
    found = run_records(connection, select_runs().where(Run.id == run_id)) if abs(run_id) <= MAX_ID else []
    if not found:
        raise RunNotFound([run_id])
    return found[0]


def _let_go() -> sa.Update:
    """Running rows become what they were asked to become, else queued."""
    return sa.update(Run).where(Run.status == "running").values(_as_asked())


def _as_asked() -> dict[str, Any]:
    """What a running row becomes when nobody works on it any more."""
    status = sa.case((Run.control == "cancel", "cancelled"), (Run.control == "pause", "paused"), else_="queued")
    finished = sa.case((Run.control == "cancel", sa.literal(now(), UtcDateTime())))
    return {"status": status, "finished_at": finished, "control": ""}


def _next_position(connection: sa.Connection, experiment_id: int) -> int:
    last = connection.scalar(sa.select(sa.func.max(Run.position)).where(Run.experiment_id == experiment_id))
    return 0 if last is None else last + 1


def _insert_again(connection: sa.Connection, run: RunRecord) -> int:
    again = NewRun(**{f.name: getattr(run, f.name) for f in fields(NewRun)})
    return insert_run(connection, run.experiment_id, _next_position(connection, run.experiment_id), again)


def _under_way(connection: sa.Connection, experiment_ids: Collection[int]) -> dict[tuple[int, str], int]:
    """(experiment, digest) -> the run of it that has not ended."""
    query = sa.select(Run.experiment_id, Run.digest, Run.id).where(
        Run.experiment_id.in_(experiment_ids), Run.status.in_(("queued", "running", "paused")), IN_USE
    )
    return {(row.experiment_id, row.digest): row.id for row in connection.execute(query)}
