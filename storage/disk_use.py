"""How much of the disk is used, by what, and how much is left."""

import shutil
from pathlib import Path

import sqlalchemy as sa

from storage.database import Database
from storage.models import Artifact, Run
from storage.records import DiskUse

TRASH = "trash"


def disk_use(database: Database, artifacts: Path) -> DiskUse:
    """Artifacts count as their rows say: no folder of thousands of files is walked through for it."""
    kind = sa.case((Run.deleted_at.is_not(None), TRASH), else_=Artifact.kind)
    query = sa.select(kind, sa.func.sum(Artifact.size_bytes)).join(Run, Run.id == Artifact.run_id).group_by(kind)
    with database.read() as connection:
        sizes = [(row[0], int(row[1])) for row in connection.execute(query)]
    checkpoints, models, analyses, trash = (
        sum(size for kind, size in sizes if kind.partition("-")[0] == group)
        for group in ("checkpoint", "model", "analysis", TRASH)
    )
    free = min(shutil.disk_usage(_nearest(place)).free for place in (artifacts, *database.files))
    return DiskUse(database.size_bytes(), checkpoints, models, analyses, trash, free)


def _nearest(path: Path) -> Path:
    """The path, or the lowest folder above it that is there."""
    return next(place for place in (path, *path.parents) if place.exists())
