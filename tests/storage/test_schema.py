"""Tables match the models, migrations are all or nothing, and unsupported versions are refused."""

import shutil
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from storage import SchemaOutdated, SchemaTooNew, Store, schema
from storage.models import Base
from tests.storage.old_tables import first_version
from tests.storage.samples import a_round, new_run

OLD_RUN = """
INSERT INTO runs (experiment_id, position, algorithm, label, seed, hparams, config, digest, status, rounds, round,
    epoch, control, created_at, archived, priority, rank, note, tags)
VALUES (1, {position}, 'a', 'a', 0, '{{}}', '{{}}', 'd', 'done', 1, 0,
    1, '', '2026-01-01 00:00:00', false, 0, 0, '', '')
"""
REBUILD_RUNS = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9998", "{before}"

def upgrade():
    with op.batch_alter_table("runs", recreate="always") as runs:
        runs.add_column(sa.Column("new_column", sa.String(), nullable=True))
    {then}
"""


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations plus one that rebuilds the table of runs."""
    folder = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = schema.revisions()[-1]
    (folder / "versions" / "9998_new_column.py").write_text(REBUILD_RUNS.format(before=before, then=""))
    monkeypatch.setattr(schema, "MIGRATIONS", folder)
    monkeypatch.setattr(schema, "revisions", schema.revisions.__wrapped__)
    return folder


def stored_columns(store: Store) -> set[str]:
    with store._database.read() as connection:
        return {column["name"] for column in sa.inspect(connection).get_columns("runs")}


def test_the_migrations_create_the_tables_of_the_models(store: Store) -> None:
    with store._database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_revisions_are_numbered_in_order() -> None:
    script = ScriptDirectory(str(schema.MIGRATIONS))
    assert [r.revision for r in script.walk_revisions()][::-1] == list(schema.revisions())


def test_migrating_is_idempotent(database_url: str, tmp_path: Path) -> None:
    store = Store(database_url)
    assert store.needs_migration()
    with pytest.raises(SchemaOutdated, match=r"there is no Fedscape database at .*; check --db"):
        store.check_schema()
    with store.try_dispatcher_lock():
        store.migrate()
        store.migrate()
    store.check_schema()
    assert not store.needs_migration()
    assert list(tmp_path.glob("*.backup-*")) == []
    store.close()


def test_reading_before_the_first_migration_explains_what_to_do(database_url: str) -> None:
    store = Store(database_url)
    with pytest.raises(SchemaOutdated, match="start the app"):
        store.queue.runs()
    store.close()


def test_a_newer_database_is_refused(store: Store) -> None:
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    for refuse in (store.check_schema, store.needs_migration, store.migrate, store.ensure_schema):
        with pytest.raises(SchemaTooNew, match="update the program"):
            refuse()
    with store._database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :v"), {"v": schema.revisions()[-1]})


def test_checking_creates_no_database(tmp_path: Path) -> None:
    with pytest.raises(SchemaOutdated, match="there is no Fedscape database"):
        Store(f"sqlite:///{tmp_path / 'new' / 'x.db'}").check_schema()
    assert not (tmp_path / "new").exists()


def test_an_old_database_is_not_taken_for_a_missing_one(store: Store) -> None:
    with store._database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :v"), {"v": schema.revisions()[0]})
    with pytest.raises(SchemaOutdated, match="are out of date; the dispatcher migrates them"):
        store.check_schema()
    with store._database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :v"), {"v": schema.revisions()[-1]})


def test_migrating_waits_for_a_running_dispatcher(database_url: str) -> None:
    store = Store(database_url)
    with store.try_dispatcher_lock(), pytest.raises(SchemaOutdated, match="the dispatcher migrates them"):
        store.ensure_schema()
    store.ensure_schema()
    store.close()


def test_a_waiting_process_migrates_once_the_lock_is_free(database_url: str) -> None:
    store = Store(database_url)
    lock = store.try_dispatcher_lock()
    assert lock is not None
    timer = threading.Timer(0.3, lock.release)
    timer.start()
    store.ensure_schema(wait_s=30)
    assert not store.needs_migration()
    timer.join()
    store.close()


def test_rebuilding_a_table_keeps_rows_that_refer_to_it(sqlite_store: Store, newer: Path, tmp_path: Path) -> None:
    sqlite_store.experiments.create("x", {}, [new_run()])
    run = sqlite_store.queue.claim()
    sqlite_store.metrics.append(run.id, run.epoch, [a_round(0)])
    sqlite_store.migrate()
    assert "new_column" in stored_columns(sqlite_store)
    assert len(sqlite_store.metrics.rounds(run.id)) == 1
    assert not sqlite_store.needs_migration()
    before = schema.revisions()[-2]
    backup = Store(f"sqlite:///{tmp_path / f'fedscape.db.backup-{before}.db'}")
    assert "new_column" not in stored_columns(backup)
    assert len(backup.metrics.rounds(run.id)) == 1
    backup.close()


def test_foreign_keys_are_enforced_after_a_migration(sqlite_store: Store, newer: Path) -> None:
    sqlite_store.migrate()
    with sqlite_store._database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_failed_migration_changes_nothing(sqlite_store: Store, newer: Path) -> None:
    broken = REBUILD_RUNS.format(before=schema.revisions()[-2], then='raise RuntimeError("in the middle")')
    (newer / "versions" / "9998_new_column.py").write_text(broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        sqlite_store.migrate()
    assert "new_column" not in stored_columns(sqlite_store)
    assert sqlite_store.needs_migration()


def test_runs_and_analyses_of_the_first_schema_are_migrated(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{first_version(tmp_path)}")
    store.migrate()
    (analysis,) = store.analyses.list(1)
    assert (analysis.status, analysis.progress, analysis.control, analysis.attempts) == ("queued", 0.0, "", 0)
    assert store.analyses.claim().epoch == 1
    (run,) = store.queue.waiting()
    assert (run.priority, run.deleted_at, run.experiment_name) == (0, None, "x")
    store.close()


def with_positions(store: Store, positions: Iterable[int]) -> None:
    """Creates the tables of schema 0007, with an experiment of finished runs at these positions."""
    with store._database.migration() as connection:
        schema._upgrade(connection, "0007")
        connection.exec_driver_sql(
            "INSERT INTO experiments (id, name, config, created_at, archived, example, note, tags, owner) "
            "VALUES (1, 'x', '{}', '2026-01-01 00:00:00', false, false, '', '', '')"
        )
        for position in positions:
            connection.exec_driver_sql(OLD_RUN.format(position=position))


def test_of_runs_at_one_position_the_first_keeps_it(blank_store: Store) -> None:
    with_positions(blank_store, (0, 1, 1, 2, 1))
    blank_store.migrate()
    found = blank_store.queue.runs(newest_first=False)
    assert [run.position for run in found] == [0, 1, 1_000_003, 2, 1_000_005]


def test_the_positions_of_an_experiment_with_many_runs_are_migrated_in_few_steps(database_url: str) -> None:
    store, steps = Store(database_url), Counter[str]()
    with_positions(store, range(2000))

    def count(connection: Any, _: Any) -> None:
        connection.set_progress_handler(lambda: steps.update(thousands=1), 1000)

    store.close()
    sa.event.listen(store._database.engine, "connect", count)
    store.migrate()
    assert steps["thousands"] < 1000  # comparing each pair of runs takes more than 10,000
    store.close()
