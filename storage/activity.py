"""The current activity in one query: what is running or queued, and on which engines. Open pages poll it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute

from storage.analyses import IS_ACTIVE
from storage.database import Database
from storage.engines import FRESH_S
from storage.models import Analysis, Engine, Run, now
from storage.records import UNFINISHED, Status
from storage.run_queue import NOT_DELETED

Column = sa.ColumnElement | InstrumentedAttribute


@dataclass(frozen=True)
class Activity:
    """A snapshot of the activity in the database."""

    runs: Mapping[Status, tuple[int, ...]]  # ids by status of UNFINISHED, archived or not, ascending
    last_run: int  # the highest run id, 0 without runs; newer runs get higher ids
    analyses: int  # queued or running
    devices: tuple[str, ...]  # of the machines with a recent heartbeat
    slots: int  # in total


def _part(kind: str, text: Column, number: Column) -> sa.Select:
    return sa.select(sa.literal_column(f"'{kind}'").label("kind"), text.label("text"), number.label("number"))


_NO_TEXT: sa.ColumnElement[str] = sa.literal_column("''")
_ALL = sa.union_all(
    _part("run", Run.status, Run.id).where(Run.status.in_(UNFINISHED), NOT_DELETED),
    _part("last", _NO_TEXT, sa.func.coalesce(sa.func.max(Run.id), 0)),
    _part("analyses", _NO_TEXT, sa.func.count(Analysis.id)).join(Run).where(IS_ACTIVE),
    _part("engine", Engine.device, Engine.slots).where(
        Engine.heartbeat_at.between(sa.bindparam("earliest"), sa.bindparam("latest")), Engine.device != ""
    ),
).order_by("kind", "number", "text")


def current_activity(database: Database) -> Activity:
    """The current activity. One cheap statement, since every open page calls it every two seconds."""
    at, margin = now(), timedelta(seconds=FRESH_S)
    with database.read() as connection:
        rows = connection.execute(_ALL, {"earliest": at - margin, "latest": at + margin}).all()
    last, analyses = (next(number for kind, _, number in rows if kind == of) for of in ("last", "analyses"))
    runs = {status: tuple(n for kind, text, n in rows if kind == "run" and text == status) for status in UNFINISHED}
    engines = [(device, slots) for kind, device, slots in rows if kind == "engine"]
    return Activity(runs, last, analyses, tuple(device for device, _ in engines), sum(slots for _, slots in engines))
