"""A database of the first version of Fedscape."""

import shutil
from pathlib import Path

import pytest

from storage import Store, schema

ROWS = (
    "INSERT INTO experiments (name, config, created_at, archived, example) "
    "VALUES ('x', '{}', '2026-01-01 00:00:00.000000', 0, 0)",
    "INSERT INTO runs (experiment_id, position, algorithm, label, seed, hparams, config, digest, status, rounds, "
    "round, epoch, control, created_at, archived) "
    "VALUES (1, 0, 'ditto', 'ditto', 0, '{}', '{}', 'd', 'queued', 5, -1, 0, '', '2026-01-01 00:00:00.000000', 0)",
    "INSERT INTO analyses (run_id, kind, params, status, created_at) "
    "VALUES (1, 'landscape', '{}', 'queued', '2026-01-01 00:00:00.000000')",
)


def first_version(folder: Path) -> Path:
    """Creates an SQLite file in ``folder``, with a run and an analysis."""
    shutil.copytree(schema.MIGRATIONS, folder / "m", ignore=shutil.ignore_patterns("__pycache__", "000[2-9]_*.py"))
    store = Store(f"sqlite:///{folder / 'old.db'}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", folder / "m")
        patch.setattr(schema, "revisions", schema.revisions.__wrapped__)
        store.migrate()
    with store._database.write() as connection:
        for statement in ROWS:
            connection.exec_driver_sql(statement)
    store.close()
    return folder / "old.db"
