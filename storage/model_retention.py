"""Giving room back: models of runs are deleted where somebody asks for it, or where all of them exceed a limit.

Rounds and analyses stay, and the run's log says it, in one transaction with the rows: nothing goes silently.
"""

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from storage.models import Analysis, Artifact, Event, Experiment, Run, now
from storage.records import ACTIVE, FINISHED

MODEL = "model-"  # what the kinds of models begin with
IS_MODEL = Artifact.kind.startswith(MODEL)


def models_of_idle(run_ids: Sequence[int]) -> sa.ColumnElement[bool]:
    """Of those of the runs that are not running."""
    idle = sa.select(Run.id).where(Run.id.in_(run_ids), Run.status != "running")
    return sa.and_(IS_MODEL, Artifact.run_id.in_(idle))


def drop_models(connection: sa.Connection, run_ids: Sequence[int], why: str) -> Sequence[sa.Row]:
    """Inside the caller's transaction; answers (path, size_bytes) of the files to remove after it."""
    doomed = sa.delete(Artifact).where(models_of_idle(run_ids))
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
            "message": f"its models ({size / 1e6:.1f} MB) were deleted, {why}; for new analyses of them run it again",
        }
        for run_id, size in sorted(sizes.items())
    ]
    if lines:
        connection.execute(sa.insert(Event), lines)
    return rows


def oldest_beyond(connection: sa.Connection, max_bytes: int) -> list[int]:
    """Finished runs whose models have to go, so that those of all runs take no more than ``max_bytes``.

    Those that were stored first, by their ids: clocks are set back now and then. Never an example's, nor those that an
    analysis is waiting for.
    """
    size = sa.func.sum(Artifact.size_bytes).label("size")
    is_needed = sa.exists().where(Analysis.run_id == Run.id, Analysis.status.in_(ACTIVE))
    is_free = sa.and_(Run.status.in_(FINISHED), ~Experiment.example, ~is_needed).label("is_free")
    by_run = sa.select(Run.id, size, is_free).join(Artifact, Artifact.run_id == Run.id).join(Experiment).where(IS_MODEL)
    rows = connection.execute(by_run.group_by(Run.id, Experiment.example).order_by(sa.func.max(Artifact.id))).all()
    excess, doomed = sum(int(row.size) for row in rows) - max_bytes, []
    for row in rows:
        if excess > 0 and row.is_free:
            doomed.append(row.id)
            excess -= int(row.size)
    return doomed
