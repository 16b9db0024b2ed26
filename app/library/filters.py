"""The filter controls. Every choice is in the address."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from app import wording
from app.data.run_table import dataset_of
from app.library.finding import WHEN, Filter, window
from app.state import url_state, widgets
from engine.core.registry import DATASETS
from storage import RunRecord

FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2199, 12, 31)  # date.max has no next day
CLEARED = ("q", "status", "method", "dataset", "when", "from", "to")


def controls(runs: Sequence[RunRecord]) -> tuple[Filter, bool]:
    """The filter, and whether archived runs are included."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_filters"):
        find = widgets.control("q", "", str, str)
        st.text_input(
            "Find",
            key=find.key,
            placeholder="ditto lam=1 digits",
            type="search",
            help="Names, words of notes, tags, or settings with a value: lam=1, lr=0.05, seed=2, tag=baseline",
        )
        statuses = choice("Status", "status", list(wording.STATUS), wording.STATUS.__getitem__)
        algorithms = choice("Method", "method", sorted({run.algorithm for run in runs}))
        datasets = choice("Data set", "dataset", sorted({dataset_of(run) for run in runs}), DATASETS.short_title)
        since, until = days()
        with_archived = widgets.toggle("Include archived", "archived")
    return Filter(find.value, statuses, algorithms, datasets, since, until), with_archived


def choice(label: str, name: str, options: list[str], title: Callable[[str], str] = str) -> list[str]:
    """A multiple choice; an empty one matches everything. In the address as ``?status=done,failed``.

    Values in the address are offered even if no run has them: a view of failed runs is empty if none failed.
    """

    def parse(text: str) -> list[str]:
        values = dict.fromkeys(filter(None, text.split(",")))
        return [value for value in values if name != "status" or value in wording.STATUS]

    at = widgets.control(name, list[str](), parse, ",".join)
    offered = list(dict.fromkeys([*options, *at.value]))
    st.multiselect(label, offered, format_func=title, key=at.key, placeholder="any")
    return at.value


def days() -> tuple[datetime | None, datetime | None]:
    """The control for the time of queueing: a window up to now, or two days."""
    when = widgets.pick("Queued", WHEN, "when", "any")
    first = last = None
    if when == "days":
        first, last = day("From", "from"), day("To", "to")
    return window(when, first, last, datetime.now(zone()))


def day(label: str, name: str) -> date | None:
    at = widgets.control(name, None, _parse_day, str)
    st.date_input(label, None, key=at.key, format="YYYY-MM-DD")
    return at.value


def zone() -> ZoneInfo:
    """The reader's time zone, if the browser reports it and this machine supports it; else UTC."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def clear() -> None:
    """Show all runs again; order and grouping stay."""
    url_state.choose(**dict.fromkeys(CLEARED))


def _parse_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST_DAY <= day <= LAST_DAY else None
