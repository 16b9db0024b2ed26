"""Deleting models to free disk space: on request, or when their total size exceeds a limit.

Rounds and analyses remain, and the run's log records the deletion in the same transaction.
"""

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from storage.models import Analysis, Artifact, Event, Experiment, Run, now
from storage.records import ACTIVE, FINISHED

MODEL = "model-"  # prefix of the artifact kinds of models
IS_MODEL = Artifact.kind.startswith(MODEL)


def idle_models(run_ids: Sequence[int]) -> sa.ColumnElement[bool]:
    """Selects the models of these runs, except of running ones."""
    idle = sa.select(Run.id).where(Run.id.in_(run_ids), Run.status != "running")
    return sa.and_(IS_MODEL, Artifact.run_id.in_(idle))


def drop_models(connection: sa.Connection, run_ids: Sequence[int], reason: str) -> Sequence[sa.Row]:
    """Deletes the rows inside the caller's transaction; returns (path, size_bytes) of the files to delete after it."""
    doomed = sa.delete(Artifact).where(idle_models(run_ids))
    rows = connection.execute(doomed.returning(Artifact.run_id, Artifact.path, Artifact.size_bytes)).all()
    sizes: Counter[int] = Counter()
    for row in rows:
        sizes[row.run_id] += row.size_bytes
    lines = [
        {
            "run_id": run_id,
            "at": now(),
            "level": "info",
            "kind": "models",
            "message": f"its models ({size / 1e6:.1f} MB) were deleted, {reason}; rerun it for new analyses",
        }
        for run_id, size in sorted(sizes.items())
    ]
    if lines:
        connection.execute(sa.insert(Event), lines)
    return rows


def oldest_over_limit(connection: sa.Connection, max_bytes: int) -> list[int]:
    """Finished runs whose models must go so that the models of all runs take at most ``max_bytes``.

    Oldest first, by artifact id, since clocks can be set back. Never examples or runs with active analyses.
    """
    size = sa.func.sum(Artifact.size_bytes).label("size")
    is_awaited = sa.exists().where(Analysis.run_id == Run.id, Analysis.status.in_(ACTIVE))
    is_deletable = sa.and_(Run.status.in_(FINISHED), ~Experiment.example, ~is_awaited).label("is_deletable")
    by_run = (
        sa.select(Run.id, size, is_deletable).join(Artifact, Artifact.run_id == Run.id).join(Experiment).where(IS_MODEL)
    )
    rows = connection.execute(by_run.group_by(Run.id, Experiment.example).order_by(sa.func.max(Artifact.id))).all()
    excess, doomed = sum(int(row.size) for row in rows) - max_bytes, []
    for row in rows:
        if excess > 0 and row.is_deletable:
            doomed.append(row.id)
            excess -= int(row.size)
    return doomed
