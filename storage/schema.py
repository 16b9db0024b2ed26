"""Migrations. Revisions are numbered files in ``migrations/versions``; the last is the current one."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from storage.database import Database
from storage.errors import SchemaOutdated, SchemaTooNew
from storage.sqlite import driver

DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_master"
Definition = tuple[str | None, str | None, str | None, str | None]

MIGRATIONS = Path(__file__).parent / "migrations"


@cache
def revisions() -> tuple[str, ...]:
    """All revisions, oldest first."""
    return tuple(sorted(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*_*.py")))


def stored_revision(connection: sa.Connection) -> str | None:
    """The revision of a database, None before the first migration."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(sa.text("SELECT version_num FROM alembic_version"))


def needs_migration(database: Database) -> bool:
    """Whether the tables are out of date. Raises SchemaTooNew if the revision is unknown."""
    return _known_revision(database) != revisions()[-1]


def check(database: Database) -> None:
    """Raises SchemaTooNew or SchemaOutdated unless the tables are those of this program. Creates no file."""
    revision = _known_revision(database) if database.exists else None
    if revision is None:
        raise SchemaOutdated(
            f"there is no Fedscape database at {database.name}; check --db (or DATABASE_URL), or run an experiment "
            "first"
        )
    if revision != revisions()[-1]:
        raise outdated(database)


def outdated(database: Database) -> SchemaOutdated:
    return SchemaOutdated(
        f"the tables of {database.name} are out of date; the dispatcher migrates them when it starts: "
        "wait a moment if it is starting, or restart the app"
    )


def migrate(database: Database) -> None:
    """Migrates to the current schema after a backup, in one transaction: a kill changes nothing."""
    revision = _known_revision(database)
    if revision == revisions()[-1]:
        return
    if revision is not None:
        database.back_up(revision)
    upgrade(database)


def upgrade(database: Database) -> None:
    """Migrates without a backup, for a database that is itself a copy."""
    with database.migration() as connection:
        _upgrade(connection, "head")


def normalized(definition: Sequence[str | None]) -> Definition:
    """The definition without whitespace, quotes and upper case, which differ between SQLite versions."""
    kind, name, table, sql = definition
    return kind, name, table, None if sql is None else re.sub(r'[\s"]', "", sql).lower()


@cache
def definitions_of(revision: str) -> frozenset[Definition]:
    """The tables, indices and everything else that the migrations up to ``revision`` create in SQLite."""
    engine = sa.create_engine("sqlite://", module=driver())
    try:
        with engine.begin() as connection:
            _upgrade(connection, revision)
            return frozenset(map(normalized, connection.exec_driver_sql(DEFINITIONS).all()))
    finally:
        engine.dispose()


def _known_revision(database: Database) -> str | None:
    with database.read() as connection:
        revision = stored_revision(connection)
    if revision is not None and revision not in revisions():
        raise SchemaTooNew(
            f"{database.name} was written by a newer version (schema {revision}, this program supports up to "
            f"{revisions()[-1]}); update the program, or set DATABASE_URL to another database"
        )
    return revision


def _upgrade(connection: sa.Connection, revision: str) -> None:
    from alembic import command  # here, since it takes half a second
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
