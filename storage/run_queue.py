"""Runs: created, claimed by the dispatcher, owned by one worker at a time, finished.

queued -> running -> done | failed | diverged | cancelled
   ^         |
   +- paused-+            a claim raises ``epoch``; only the owner of the current epoch may write to the run
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
from storage.models import Analysis, Artifact, Experiment, Partition, Run, UtcDateTime, now
from storage.ownership import update_owned
from storage.queue_order import moved
from storage.records import ACTIVE, FINISHED, UNFINISHED, Control, NewRun, QueueMove, RoundRecord, RunRecord, Status
from storage.shares import Limits, keep_compute, over_day, serve
from storage.turns import CLAIM_ORDER, QUEUED, in_turn, next_run, turns

NOT_DELETED = Run.deleted_at.is_(None)
FIRST_OF_RERUNS = 1_000_000  # positions below are given by the experiment
NO_LIMITS = Limits()
SAME = ("experiment_id", "label", "digest")  # equal in a run and its reruns; digests do not contain the label


class RunQueue:
    """The runs of a database. Every method raises StorageError if the database cannot be read or written."""

    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database, self._artifacts = database, artifacts

    def runs(
        self,
        *,
        experiment_ids: Sequence[int] | None = None,
        run_ids: Sequence[int] | None = None,
        statuses: Sequence[Status] | None = None,
        algorithms: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        include_archived: bool = False,
        limit: int | None = None,
        newest_first: bool = True,
        with_partition: bool = True,
    ) -> list[RunRecord]:
        """Runs that meet all conditions. A long list loads faster with ``with_partition=False``."""
        selected = {
            "experiment_id": experiment_ids,
            "id": run_ids,
            "status": statuses,
            "algorithm": algorithms,
            "label": labels,
            "seed": seeds,
        }
        allowed: dict[str, Any] = {name: list(values) for name, values in selected.items() if values is not None}
        query = _query(frozenset(allowed), with_partition, include_archived, newest_first, limit is not None)
        with self._database.read() as connection:
            return run_records(connection, query, allowed | ({} if limit is None else {"limit": limit}))

    def get(self, run_id: int) -> RunRecord:
        """The run with this id. Raises RunNotFound."""
        with self._database.read() as connection:
            return _get(connection, run_id)

    def find_by_digest(self, digests: Iterable[str]) -> list[RunRecord]:
        """Runs with the same resolved configuration and seed, in any status; newest first."""
        with self._database.read() as connection:
            return run_records(connection, select_runs().where(Run.digest.in_(tuple(digests))).order_by(Run.id.desc()))

    def repeats(self, run_ids: Sequence[int]) -> dict[int, int]:
        """The newest run with the same configuration and label, for each run that was repeated in its experiment."""
        later = aliased(Run)
        same = (getattr(later, name) == getattr(Run, name) for name in SAME)
        query = (
            sa.select(Run.id, sa.func.max(later.id))
            .join(later, sa.and_(*same, later.id > Run.id, later.deleted_at.is_(None)))
            .where(Run.id.in_(run_ids))
            .group_by(Run.id)
        )
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def counts(self) -> dict[str, int]:
        """The number of runs per status."""
        counted = sa.select(Run.status, sa.func.count()).where(NOT_DELETED).group_by(Run.status)
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(counted)}

    def ids(
        self, statuses: Sequence[Status] | None = None, *, experiment_ids: Sequence[int] | None = None
    ) -> list[int]:
        """Ids of the runs that meet all conditions, archived or not, ascending. Faster than loading the runs."""
        query = sa.select(Run.id).where(NOT_DELETED).order_by(Run.id)
        if statuses is not None:
            query = query.where(Run.status.in_(statuses))
        if experiment_ids is not None:
            query = query.where(Run.experiment_id.in_(experiment_ids))
        with self._database.read() as connection:
            return list(connection.scalars(query))

    def waiting(self) -> list[RunRecord]:
        """Queued runs in the order in which they will be claimed."""
        with self._database.read() as connection:
            return run_records(connection, _waiting())

    # Called by the dispatcher.

    def claim(self, run_ids: Sequence[int] | None = None, limits: Limits = NO_LIMITS) -> RunRecord | None:
        """Claims the next queued run (of ``run_ids``), or returns None. Only the new epoch may write to it now.

        Runs of owners who have reached a limit stay queued.
        """
        at = now()
        with self._database.write() as connection:
            held = [] if limits.day_s is None else over_day(connection, limits.day_s)
            parameters = {"run_ids": run_ids, "max_running": limits.running, "held": held}
            query = next_run(run_ids is not None, limits.running is not None, bool(held))
            row = connection.execute(query, {k: v for k, v in parameters.items() if v is not None}).one_or_none()
            if row is None:
                return None
            serve(connection, row.owner)
            connection.execute(
                sa.update(Run)
                .where(Run.id == row.id)
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
            return _get(connection, row.id)

    def requeue_running(self) -> list[int]:
        """Requeues the running runs when a dispatcher starts. Returns the ids of those that will run again.

        A run with a pending cancel or pause request is cancelled or paused instead.
        """
        with self._database.write() as connection:
            rows = connection.execute(_release_running().returning(Run.id, Run.status)).all()
        return sorted(row.id for row in rows if row.status == "queued")

    def requeue(self, run_id: int, epoch: int) -> Status:
        """Requeues a run whose worker died, or cancels or pauses it if requested. Fenced; returns the new status."""
        with self._database.write() as connection:
            update_owned(connection, run_id, epoch, heartbeat_at=now())
            return cast(
                Status, connection.scalars(_release_running().where(Run.id == run_id).returning(Run.status)).one()
            )

    # Called by the owner of a run; all of it raises Fenced once the claim is lost.

    def heartbeat(self, run_id: int, epoch: int, seconds_per_round: float | None = None) -> Control:
        """Stores a heartbeat, for display only. Returns the pending control request."""
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
        """Stores where and on what data the run is computed; None leaves a value unchanged."""
        values: dict[str, Any] = {"heartbeat_at": now(), "provenance": provenance, "worker": worker}
        with self._database.write() as connection:
            update_owned(connection, run_id, epoch, **{k: v for k, v in values.items() if v is not None})
            if partition is not None:
                insert_partition(connection, run_id, partition)

    def finish(
        self,
        run_id: int,
        epoch: int,
        status: Status,
        *,
        error: str | None = None,
        summary: dict | None = None,
        rounds: Sequence[RoundRecord] = (),
    ) -> Status:
        """Stores the final status and the rounds not stored yet. Returns the resulting status.

        A run about to pause is cancelled or requeued if that was requested in the meantime.
        """
        values: dict[str, Any] = {"status": status, "error": error, "control": "", "heartbeat_at": now()}
        if status == "paused":
            values |= _released_values()
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

    # Called for the user.

    def request(self, run_ids: Sequence[int], control: Literal["cancel", "pause"]) -> None:
        """Cancels or pauses waiting runs immediately; a running run sees the request at its next write."""
        running = Run.status == "running"
        if control == "cancel":
            selected = sa.update(Run).where(Run.status.in_(UNFINISHED))
            end = {"status": "cancelled", "finished_at": sa.literal(now(), UtcDateTime())}
        else:
            selected = sa.update(Run).where(Run.status.in_(ACTIVE), Run.control != "cancel")
            end = {"status": "paused"}
        values = {name: sa.case((running, getattr(Run, name)), else_=value) for name, value in end.items()}
        values["control"] = sa.case((running, control), else_="")
        with self._database.write() as connection:  # one statement, so that no run is claimed in between
            connection.execute(selected.where(Run.id.in_(run_ids)).values(values))

    def resume(self, run_ids: Sequence[int]) -> None:
        """Queues paused runs again, and withdraws pause requests that are still pending."""
        status = sa.case((Run.status == "paused", "queued"), else_=Run.status)
        selected = sa.update(Run).where(Run.id.in_(run_ids), (Run.status == "paused") | (Run.control == "pause"))
        with self._database.write() as connection:
            connection.execute(selected.values(status=status, control=""))

    def prioritize(self, run_ids: Sequence[int], priority: int) -> None:
        """Sets the priority: larger runs first, the default is 0. It is kept when the run is requeued."""
        with self._database.write() as connection:
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids)).values(priority=priority))

    def move(self, run_ids: Sequence[int], to: QueueMove) -> None:
        """Moves queued runs, in their current order, among the runs of the same owner and priority."""
        waiting = (
            sa.select(Run.id, Run.priority, Run.rank, Experiment.owner)
            .join(Experiment)
            .where(QUEUED)
            .order_by(*CLAIM_ORDER)
            .with_for_update(of=Run)
        )
        with self._database.write() as connection:
            rows = connection.execute(waiting).all()
            for owner, priority in {(row.owner, row.priority) for row in rows if row.id in run_ids}:
                equals = [row for row in rows if (row.owner, row.priority) == (owner, priority)]
                order = moved([row.id for row in equals], set(run_ids), to)
                before = {row.id: row.rank for row in equals}
                # Negative, so that runs queued later, at rank 0, come after them.
                for rank, run_id in enumerate(order, -len(order)):
                    if before[run_id] != rank:
                        connection.execute(sa.update(Run).where(Run.id == run_id).values(rank=rank))

    def rerun(self, run_ids: Sequence[int]) -> list[RunRecord]:
        """Queues new runs with the same configurations. Raises RunNotFound."""
        with self._database.write() as connection:
            old = run_records(connection, select_runs(with_partition=False).where(Run.id.in_(run_ids)).order_by(Run.id))
            if missing := set(run_ids) - {run.id for run in old}:
                raise RunNotFound(missing)
            ids = [_insert_rerun(connection, run) for run in old]
            return run_records(connection, select_runs().where(Run.id.in_(ids)).order_by(Run.id))

    def retry(self, run_ids: Sequence[int], statuses: Sequence[Status] = ("failed", "diverged")) -> list[RunRecord]:
        """Reruns the runs that ended in these statuses, one for each, in the order of their ids.

        Returns the existing rerun instead if there is one that has not ended.
        """
        failed = select_runs(with_partition=False).where(Run.id.in_(run_ids), Run.status.in_(statuses))
        with self._database.write() as connection:
            old = run_records(connection, failed.order_by(Run.id).with_for_update(of=Run))
            again = _unfinished(connection, {run.experiment_id for run in old})
            for run in old:
                if _same(run) not in again:
                    again[_same(run)] = _insert_rerun(connection, run)
            new = {_same(run): run for run in run_records(connection, select_runs().where(Run.id.in_(again.values())))}
        return [new[_same(run)] for run in old]

    def archive(self, run_ids: Sequence[int], archived: bool = True) -> None:
        """Archives runs, which hides them, or restores them."""
        with self._database.write() as connection:
            connection.execute(sa.update(Run).where(Run.id.in_(run_ids)).values(archived=archived))

    def delete(self, run_ids: Sequence[int]) -> None:
        """Permanently deletes rows and files, and experiments left without runs.

        Raises RunsActive, and deletes none, if one is running.
        """
        with self._database.write() as connection:
            paths = delete_runs(connection, run_ids)
        self._artifacts.remove_files(paths)


def insert_run(connection: sa.Connection, experiment_id: int, position: int, run: NewRun, **values: Any) -> int:
    """Inserts a queued run inside the caller's transaction; ``values`` override the defaults of a new run."""
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


def next_position(connection: sa.Connection, experiment_id: int) -> int:
    """A position after those that the experiment may still use itself."""
    connection.execute(sa.select(Experiment.id).where(Experiment.id == experiment_id).with_for_update())
    last = connection.scalar(sa.select(sa.func.max(Run.position)).where(Run.experiment_id == experiment_id))
    return FIRST_OF_RERUNS if last is None else max(last + 1, FIRST_OF_RERUNS)


def insert_partition(connection: sa.Connection, run_id: int, partition: dict) -> None:
    connection.execute(sa.delete(Partition).where(Partition.run_id == run_id))
    connection.execute(sa.insert(Partition).values(run_id=run_id, partition=partition))


def delete_runs(connection: sa.Connection, run_ids: Sequence[int]) -> list[str]:
    """Deletes rows inside the caller's transaction; returns the files to delete after it. Raises RunsActive."""
    refuse_running(connection, run_ids)
    keep_compute(connection, Run.id.in_(run_ids), Analysis.run_id.in_(run_ids))
    affected = set(connection.scalars(sa.select(Run.experiment_id).where(Run.id.in_(run_ids))))
    paths = connection.scalars(sa.select(Artifact.path).where(Artifact.run_id.in_(run_ids))).all()
    connection.execute(sa.delete(Run).where(Run.id.in_(run_ids)))
    empty = ~sa.exists().where(Run.experiment_id == Experiment.id)
    connection.execute(sa.delete(Experiment).where(Experiment.id.in_(affected), empty))
    return list(paths)


def refuse_running(connection: sa.Connection, run_ids: Sequence[int]) -> None:
    rows = connection.execute(sa.select(Run.id, Run.status).where(Run.id.in_(run_ids)).with_for_update()).all()
    if running := [row.id for row in rows if row.status == "running"]:
        raise RunsActive(running)


def select_runs(with_partition: bool = True, include_deleted: bool = False) -> sa.Select:
    """Selects the columns of a RunRecord, in order."""
    joined: dict[str, sa.ColumnElement | InstrumentedAttribute] = {
        "experiment_name": Experiment.name,
        "example": Experiment.example,
        "experiment_note": Experiment.note,
        "experiment_tags": Experiment.tags,
        "owner": Experiment.owner,
        "partition": Partition.partition if with_partition else sa.null().label("partition"),
    }
    columns = (joined[f.name] if f.name in joined else getattr(Run, f.name) for f in fields(RunRecord))
    query = sa.select(*columns).select_from(Run).join(Experiment)
    if with_partition:
        query = query.outerjoin(Partition, Partition.run_id == Run.id)
    return query if include_deleted else query.where(NOT_DELETED)


@cache
def _waiting() -> sa.Select:
    found = turns()
    return select_runs(with_partition=False).join(found, found.c.id == Run.id).order_by(*in_turn(found))


@cache
def _query(
    conditions: frozenset[str], with_partition: bool, include_archived: bool, newest_first: bool, is_limited: bool
) -> sa.Select:
    """Cached, so that SQLAlchemy finds the statement compiled."""
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
    found = run_records(connection, select_runs().where(Run.id == run_id))
    if not found:
        raise RunNotFound([run_id])
    return found[0]


def _release_running() -> sa.Update:
    """Running rows become cancelled or paused where that was requested, else queued."""
    return sa.update(Run).where(Run.status == "running").values(_released_values())


def _released_values() -> dict[str, Any]:
    """The values of a running row that no longer has a worker."""
    status = sa.case((Run.control == "cancel", "cancelled"), (Run.control == "pause", "paused"), else_="queued")
    finished = sa.case((Run.control == "cancel", sa.literal(now(), UtcDateTime())))
    return {"status": status, "finished_at": finished, "control": ""}


def _insert_rerun(connection: sa.Connection, run: RunRecord) -> int:
    again = NewRun(**{f.name: getattr(run, f.name) for f in fields(NewRun)})
    return insert_run(connection, run.experiment_id, next_position(connection, run.experiment_id), again)


def _unfinished(connection: sa.Connection, experiment_ids: Collection[int]) -> dict[tuple[int, str, str], int]:
    """``_same`` -> id of the run that has not ended."""
    query = sa.select(Run.id, *(getattr(Run, name) for name in SAME)).where(
        Run.experiment_id.in_(experiment_ids), Run.status.in_(UNFINISHED), NOT_DELETED
    )
    return {_same(row): row.id for row in connection.execute(query)}


def _same(run: Any) -> tuple[int, str, str]:
    """Equal for a run and its reruns."""
    return run.experiment_id, run.label, run.digest
