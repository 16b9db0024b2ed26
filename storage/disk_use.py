"""Disk usage: by what, and how much is free."""

import shutil
from pathlib import Path

import sqlalchemy as sa

from storage.database import Database
from storage.models import Artifact, Run
from storage.records import DiskUse

TRASH = "trash"


def disk_use(database: Database, artifacts: Path) -> DiskUse:
    """Measures disk usage. Sizes of artifacts come from their rows, which is faster than walking the folder."""
    kind = sa.case((Run.deleted_at.is_not(None), TRASH), else_=Artifact.kind)
    query = sa.select(kind, sa.func.sum(Artifact.size_bytes)).join(Run, Run.id == Artifact.run_id).group_by(kind)
    with database.read() as connection:
        sizes = [(row[0], int(row[1])) for row in connection.execute(query)]
    checkpoints, models, analyses, trash = (
        sum(size for kind, size in sizes if kind.partition("-")[0] == group)
        for group in ("checkpoint", "model", "analysis", TRASH)
    )
    free = min(shutil.disk_usage(_existing_parent(path)).free for path in (artifacts, *database.files))
    return DiskUse(database.size_bytes(), checkpoints, models, analyses, trash, free)


def _existing_parent(path: Path) -> Path:
    """The path, or its closest parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
