"""Rounds and their metrics: written by the owner of a run in one transaction, read as arrays."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import sqlalchemy as sa

from storage.array_codec import pack, unpack, unpack_stack
from storage.artifacts import ArtifactStore, insert_artifact
from storage.database import Database
from storage.models import Artifact, ClientMetric, ClusterAssignment, Round, RoundMetric, now
from storage.ownership import update_owned
from storage.records import Control, NewArtifact, RoundRecord

Curve = tuple[np.ndarray, np.ndarray]  # rounds [R], values [R, ...]


class Metrics:
    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database, self._artifacts = database, artifacts

    def append(
        self,
        run_id: int,
        epoch: int,
        rounds: Sequence[RoundRecord],
        *,
        summary: dict | None = None,
        checkpoint: NewArtifact | None = None,
    ) -> Control:
        """Stores rounds together with their checkpoint. Returns the pending control request. Raises Fenced."""
        values: dict = {"heartbeat_at": now()}
        if rounds:
            values["round"] = rounds[-1].round
        if summary is not None:
            values["summary"] = summary
        packed = pack_rounds(rounds)
        with self._database.write() as connection:
            control = update_owned(connection, run_id, epoch, **values)
            insert_rounds(connection, run_id, packed)
            if checkpoint is not None:
                insert_artifact(connection, run_id, checkpoint)
        return control

    def rewind(self, run_id: int, epoch: int, after_round: int) -> None:
        """Deletes the summary and all rounds after ``after_round`` (-1: all), to compute them again. Raises Fenced."""
        with self._database.write() as connection:
            update_owned(connection, run_id, epoch, round=after_round, summary=None, heartbeat_at=now())
            for table in (Round, RoundMetric, ClientMetric, ClusterAssignment):
                connection.execute(sa.delete(table).where(table.run_id == run_id, table.round > after_round))
            later = sa.delete(Artifact).where(Artifact.run_id == run_id, Artifact.round > after_round)
            paths = connection.scalars(later.returning(Artifact.path)).all()
        self._artifacts.remove_files(paths)

    def stored_rounds(self, run_id: int, after: int = -1, limit: int | None = None) -> list[int]:
        """The numbers of the stored rounds after ``after``, in order."""
        query = sa.select(Round.round).where(Round.run_id == run_id, Round.round > after)
        with self._database.read() as connection:
            return list(connection.scalars(query.order_by(Round.round).limit(limit)))

    def rounds(self, run_id: int, after: int = -1, limit: int | None = None) -> list[RoundRecord]:
        """The stored rounds after ``after``, with all their values, in order."""
        heads = sa.select(Round.round, Round.cohort, Round.evaluated).where(Round.run_id == run_id, Round.round > after)
        with self._database.read() as connection:
            rows = connection.execute(heads.order_by(Round.round).limit(limit)).all()
            if not rows:
                return []
            first, last = rows[0].round, rows[-1].round
            scalars = _scalars_by_round(connection, run_id, first, last)
            values = _arrays_by_round(connection, run_id, first, last)
            labels = _labels_by_round(connection, run_id, [row.round for row in rows])
        return [
            RoundRecord(
                row.round,
                np.frombuffer(row.cohort, "<i4"),
                scalars.get(row.round, {}),
                values.get(row.round, {}),
                labels.get(row.round),
                row.evaluated,
            )
            for row in rows
        ]

    def scalars(
        self,
        run_ids: Sequence[int],
        names: Sequence[str],
        after: Mapping[int, int] | None = None,
        rounds: Sequence[int] | None = None,
    ) -> dict[int, dict[str, Curve]]:
        """Curves of several runs in one query: run -> name -> (rounds, values).

        Limited to the rounds above ``after[run]``, or to ``rounds``.
        """
        groups: dict[int, list[int]] = defaultdict(list)
        for run_id in run_ids:
            groups[(after or {}).get(run_id, -1)].append(run_id)
        conditions = [sa.and_(RoundMetric.run_id.in_(ids), RoundMetric.round > start) for start, ids in groups.items()]
        query = (
            sa.select(RoundMetric.run_id, RoundMetric.name, RoundMetric.round, RoundMetric.value)
            .where(RoundMetric.name.in_(names), sa.or_(sa.false(), *conditions))
            .order_by(RoundMetric.run_id, RoundMetric.name, RoundMetric.round)
        )
        if rounds is not None:
            query = query.where(RoundMetric.round.in_(rounds))
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        curves: dict[int, dict[str, Curve]] = {run_id: {} for run_id in run_ids}
        for (run_id, name), points in groupby(rows, key=lambda row: (row[0], row[1])):
            at, values = zip(*((row[2], row[3]) for row in points), strict=True)
            curves[run_id][name] = np.array(at), np.array(values, dtype=np.float64)  # NULL becomes NaN
        return curves

    def array(self, run_id: int, name: str, rounds: Sequence[int] | None = None) -> Curve:
        """An array over all rounds, or those of ``rounds``, that have it: (rounds [R], values [R, ...])."""
        query = (
            sa.select(ClientMetric.round, ClientMetric.dtype, ClientMetric.shape, ClientMetric.data)
            .where(ClientMetric.run_id == run_id, ClientMetric.name == name)
            .order_by(ClientMetric.round)
        )
        if rounds is not None:
            query = query.where(ClientMetric.round.in_(rounds))
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            return np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.float32)
        return np.array([row[0] for row in rows]), unpack_stack(name, [(row[1], row[2], row[3]) for row in rows])

    def array_at(self, run_id: int, name: str, round: int | None = None) -> np.ndarray | None:
        """An array of one round (None: the last that has it), or None if there is none."""
        return self.arrays_at([run_id], name, None if round is None else {run_id: round}).get(run_id)

    def arrays_at(
        self, run_ids: Sequence[int], name: str, rounds: Mapping[int, int] | None = None
    ) -> dict[int, np.ndarray]:
        """``array_at`` for several runs in one query, at ``rounds[run]`` or else the last round, where there is one."""
        with self._database.read() as connection:
            return arrays_at(connection, run_ids, name, rounds)

    def sums(
        self, run_id: int, names: Sequence[str], after: int, until: int, every: int
    ) -> dict[int, dict[str, float]]:
        """Sums of scalars per block of ``every`` rounds, for the rounds above ``after`` up to ``until``.

        Each block ends at a multiple of ``every``: last round of the block -> name -> sum.
        """
        ending = ((RoundMetric.round + (every - 1)) // every * every).label("ending")
        query = (
            sa.select(ending, RoundMetric.name, sa.func.sum(RoundMetric.value))
            .where(RoundMetric.run_id == run_id, RoundMetric.name.in_(names))
            .where(RoundMetric.round > after, RoundMetric.round <= until)
            .group_by("ending", RoundMetric.name)
        )
        sums: dict[int, dict[str, float]] = defaultdict(dict)
        with self._database.read() as connection:
            for at, name, value in connection.execute(query):
                sums[at][name] = math.nan if value is None else value
        return sums

    def totals(self, until: Mapping[int, int], names: Sequence[str]) -> dict[int, dict[str, float]]:
        """Sums of scalars up to round ``until[run]`` of several runs, in one query: run -> name -> sum."""
        with self._database.read() as connection:
            return totals(connection, until, names)

    def having_clusters(self, run_ids: Sequence[int]) -> set[int]:
        """The runs that have cluster assignments."""
        query = sa.select(ClusterAssignment.run_id).where(ClusterAssignment.run_id.in_(run_ids)).distinct()
        with self._database.read() as connection:
            return set(connection.scalars(query))

    def clusters(self, run_id: int) -> Curve:
        """The cluster of every client in the stored rounds that have any: (rounds [R], labels [R, N])."""
        query = sa.select(Round.round).where(Round.run_id == run_id).order_by(Round.round)
        with self._database.read() as connection:
            labels = _labels_by_round(connection, run_id, connection.scalars(query).all())
        if not labels:
            return np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int16)
        return np.array(list(labels)), np.stack(list(labels.values()))


@dataclass(frozen=True)
class PackedRounds:
    """Rows of consecutive rounds, without the run's id."""

    heads: list[dict[str, Any]]
    scalars: list[dict[str, Any]]
    arrays: list[dict[str, Any]]
    labels: list[tuple[int, bytes]]  # per round; empty without clusters


def arrays_at(
    connection: sa.Connection, run_ids: Sequence[int], name: str, rounds: Mapping[int, int] | None = None
) -> dict[int, np.ndarray]:
    """``Metrics.arrays_at`` inside the caller's transaction."""
    rounds = rounds or {}
    without_round = (ClientMetric.name == name, ClientMetric.run_id.in_([i for i in run_ids if i not in rounds]))
    last = (
        sa.select(ClientMetric.run_id, sa.func.max(ClientMetric.round))
        .where(*without_round)
        .group_by(ClientMetric.run_id)
    )
    conditions = [
        sa.and_(ClientMetric.run_id.in_(ids), ClientMetric.round == at)
        for at, ids in _by_round(run_ids, rounds).items()
    ]
    query = sa.select(ClientMetric.run_id, ClientMetric.dtype, ClientMetric.shape, ClientMetric.data)
    where = sa.or_(sa.tuple_(ClientMetric.run_id, ClientMetric.round).in_(last), *conditions)
    rows = connection.execute(query.where(ClientMetric.name == name, where)).all()
    return {run_id: unpack(dtype, shape, data) for run_id, dtype, shape, data in rows}


def totals(connection: sa.Connection, until: Mapping[int, int], names: Sequence[str]) -> dict[int, dict[str, float]]:
    """``Metrics.totals`` inside the caller's transaction."""
    conditions = [
        sa.and_(RoundMetric.run_id.in_(ids), RoundMetric.round <= at)
        for at, ids in _by_round(list(until), until).items()
    ]
    query = (
        sa.select(RoundMetric.run_id, RoundMetric.name, sa.func.sum(RoundMetric.value))
        .where(RoundMetric.name.in_(names), sa.or_(sa.false(), *conditions))
        .group_by(RoundMetric.run_id, RoundMetric.name)
    )
    sums: dict[int, dict[str, float]] = {run_id: {} for run_id in until}
    for run_id, name, value in connection.execute(query):
        sums[run_id][name] = math.nan if value is None else value
    return sums


def pack_rounds(rounds: Sequence[RoundRecord]) -> PackedRounds:
    """Encodes rounds. Done before the transaction begins, to keep it short."""
    packed = PackedRounds([], [], [], [])
    for r in rounds:
        key = {"round": r.round}
        cohort = np.asarray(r.cohort).astype("<i4").tobytes()
        packed.heads.append(key | {"evaluated": bool(r.evaluated), "cohort": cohort})
        packed.scalars.extend(key | {"name": n, "value": _number_or_null(value)} for n, value in r.scalars.items())
        packed.arrays.extend(key | {"name": n} | pack(np.asarray(a))._asdict() for n, a in r.arrays.items())
        packed.labels.append((r.round, b"" if r.clusters is None else np.asarray(r.clusters).astype("<i2").tobytes()))
    return packed


def insert_rounds(connection: sa.Connection, run_id: int, packed: PackedRounds) -> None:
    """Inserts encoded rounds inside the caller's transaction."""
    labels = [{"round": round, "labels": labels} for round, labels in _changes(connection, run_id, packed.labels)]
    of_tables = (
        (Round, packed.heads),
        (RoundMetric, packed.scalars),
        (ClientMetric, packed.arrays),
        (ClusterAssignment, labels),
    )
    for table, rows in of_tables:
        if rows:
            connection.execute(sa.insert(table), [row | {"run_id": run_id} for row in rows])


def _by_round(run_ids: Iterable[int], rounds: Mapping[int, int]) -> dict[int, list[int]]:
    """Groups runs by the round requested for them."""
    groups: dict[int, list[int]] = defaultdict(list)
    for run_id in run_ids:
        if run_id in rounds:
            groups[rounds[run_id]].append(run_id)
    return groups


def _number_or_null(value: float) -> float | None:
    number = float(value)
    return None if math.isnan(number) else number


def _changes(connection: sa.Connection, run_id: int, labels: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The rounds whose cluster labels differ from the round before."""
    last = sa.select(ClusterAssignment.labels).where(ClusterAssignment.run_id == run_id)
    before = connection.scalar(last.order_by(ClusterAssignment.round.desc()).limit(1)) or b""
    return [now for earlier, now in pairwise([(-1, bytes(before)), *labels]) if earlier[1] != now[1]]


def _scalars_by_round(connection: sa.Connection, run_id: int, first: int, last: int) -> dict[int, dict[str, float]]:
    query = sa.select(RoundMetric.round, RoundMetric.name, RoundMetric.value)
    query = query.where(RoundMetric.run_id == run_id, RoundMetric.round.between(first, last))
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for round, name, value in connection.execute(query):
        found[round][name] = math.nan if value is None else value
    return found


def _arrays_by_round(connection: sa.Connection, run_id: int, first: int, last: int) -> dict[int, dict[str, np.ndarray]]:
    query = sa.select(
        ClientMetric.round, ClientMetric.name, ClientMetric.dtype, ClientMetric.shape, ClientMetric.data
    ).where(ClientMetric.run_id == run_id, ClientMetric.round.between(first, last))
    found: dict[int, dict[str, np.ndarray]] = defaultdict(dict)
    for round, name, dtype, shape, data in connection.execute(query):
        found[round][name] = unpack(dtype, shape, data)
    return found


def _labels_by_round(connection: sa.Connection, run_id: int, rounds: Sequence[int]) -> dict[int, np.ndarray]:
    """The labels of each round: an assignment holds until the next one that is stored."""
    query = sa.select(ClusterAssignment.round, ClusterAssignment.labels)
    query = query.where(ClusterAssignment.run_id == run_id).order_by(ClusterAssignment.round)
    changes = [(round, np.frombuffer(labels, "<i2")) for round, labels in connection.execute(query)]
    found: dict[int, np.ndarray] = {}
    at = -1
    for round in rounds:
        while at + 1 < len(changes) and changes[at + 1][0] <= round:
            at += 1
        if at >= 0 and changes[at][1].size:
            found[round] = changes[at][1]
    return found
