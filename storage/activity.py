"""What every open page asks for every two seconds, in one statement: what is under way, and who computes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute

from storage.database import Database
from storage.engines import FRESH_S
from storage.models import Analysis, Engine, Run, now
from storage.records import ACTIVE, Status
from storage.run_queue import IN_USE

Column = sa.ColumnElement | InstrumentedAttribute

UNDER_WAY: tuple[Status, ...] = ("queued", "running", "paused")


@dataclass(frozen=True)
class Glance:
    """One moment of the database."""

    runs: Mapping[Status, tuple[int, ...]]  # those of each status of UNDER_WAY, archived or not, lowest first
    last_run: int  # the highest id that a run has, 0 where there are none: later ones get higher ids
    analyses: int  # queued or running
    devices: tuple[str, ...]  # of the engines heard of lately
    slots: int  # of all of them


def _part(kind: str, text: Column, number: Column) -> sa.Select:
    return sa.select(sa.literal_column(f"'{kind}'").label("kind"), text.label("text"), number.label("number"))


_NOTHING: sa.ColumnElement[str] = sa.literal_column("''")
_ALL = sa.union_all(
    _part("run", Run.status, Run.id).where(Run.status.in_(UNDER_WAY), IN_USE),
    _part("last", _NOTHING, sa.func.coalesce(sa.func.max(Run.id), 0)),
    _part("analyses", _NOTHING, sa.func.count(Analysis.id)).where(Analysis.status.in_(ACTIVE)),
    _part("engine", Engine.device, Engine.slots).where(
        Engine.heartbeat_at.between(sa.bindparam("earliest"), sa.bindparam("latest"))
    ),
).order_by("kind", "number", "text")


def glance(database: Database) -> Glance:
    """Cheap: a page that is left open costs little."""
    at, margin = now(), timedelta(seconds=FRESH_S)
    with database.read() as connection:
        rows = connection.execute(_ALL, {"earliest": at - margin, "latest": at + margin}).all()
    last, analyses = (next(number for kind, _, number in rows if kind == of) for of in ("last", "analyses"))
    runs = {status: tuple(n for kind, text, n in rows if kind == "run" and text == status) for status in UNDER_WAY}
    engines = [(device, slots) for kind, device, slots in rows if kind == "engine"]
    return Glance(runs, last, analyses, tuple(device for device, _ in engines), sum(slots for _, slots in engines))
