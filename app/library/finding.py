"""Filters runs by words and settings, status, method, data set and the days on which they were queued."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from app.data.comparison import method_name
from app.data.run_table import dataset_of, tags_of
from storage import RunRecord

SECTIONS = ("dataset", "partition", "model", "training")
WHEN = {"any": "any time", "day": "last 24 hours", "week": "last 7 days", "month": "last 30 days", "days": "date range"}
WINDOWS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}


@dataclass(frozen=True)
class Filter:
    """The filter of the list of runs; an empty field matches everything."""

    text: str = ""
    statuses: Collection[str] = ()
    algorithms: Collection[str] = ()
    datasets: Collection[str] = ()
    since: datetime | None = None
    until: datetime | None = None  # not included

    def passes(self, run: RunRecord) -> bool:
        chosen = ((self.statuses, run.status), (self.algorithms, run.algorithm), (self.datasets, dataset_of(run)))
        is_in_time = (self.since is None or run.created_at >= self.since) and (
            self.until is None or run.created_at < self.until
        )
        return (
            is_in_time and all(not allowed or value in allowed for allowed, value in chosen) and self._matches_text(run)
        )

    def _matches_text(self, run: RunRecord) -> bool:
        """Every word is in a name, note or tag, or is the run's number; every ``lam=12`` is a setting of this value."""
        words = self.text.lower().split()
        return all(_is_set(run, word) if "=" in word else word in _names(run) for word in words)


def settings(run: RunRecord) -> Iterator[tuple[str, Any]]:
    """Lower-case names and values of a run's settings: ``lam``, ``training.lr`` and ``lr``, ``seed``."""
    yield from (("seed", run.seed), ("rounds", run.rounds), ("status", run.status))
    yield from (("tag", tag) for tag in tags_of(run))
    yield "owner", run.owner
    for name, value in run.hparams.items():
        yield name.lower(), value
    for section in SECTIONS:
        options: Mapping[str, Any] = run.config.get(section) or {}
        for name, value in options.items():
            yield from ((name.lower(), value), (f"{section}.{name}".lower(), value))


def window(when: str, first: date | None, last: date | None, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Since and until, for a key of WHEN; days are in ``now``'s time zone, both included."""
    if when in WINDOWS:
        return now - WINDOWS[when], None
    if when != "days":
        return None, None
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    since, after = (
        None if day is None else midnight.replace(year=day.year, month=day.month, day=day.day) for day in (first, last)
    )
    return since, after and after + timedelta(days=1)


def _names(run: RunRecord) -> str:
    named = " ".join(f"{name}={value}" for name, value in run.hparams.items())
    methods = f"{run.label} {run.algorithm} {method_name(run.label, run.algorithm)}"
    written = " ".join((run.note, run.experiment_note, *tags_of(run)))
    return f"{run.id} {run.experiment_name} {methods} {dataset_of(run)} {run.status} {named} {written}".lower()


def _is_set(run: RunRecord, word: str) -> bool:
    name, _, expected = word.partition("=")
    return word in run.label.lower().split() or any(
        known == name and _is_value(value, expected) for known, value in settings(run)
    )


def _is_value(value: Any, expected: str) -> bool:
    """``0.10`` is 0.1; a name without a value matches any."""
    try:
        return not expected or float(value) == float(expected)
    except (TypeError, ValueError):
        return str(value).lower() == expected
