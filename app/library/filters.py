"""The filter controls. Every choice is in the address."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from app import wording
from app.data.run_table import dataset_of
from app.library.finding import WHEN, Filter, window
from app.state import address, browser
from storage import RunRecord

PICKED = ("status", "method", "dataset", "when")
TYPED: dict[str, object] = {"q": "", "from": None, "to": None}  # what is bound to the address, and what clears it


def controls(runs: Sequence[RunRecord]) -> tuple[Filter, bool]:
    """The filter, and whether archived runs are included."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="library_filters"):
        text = st.text_input(
            "Find",
            key="q",
            bind="query-params",
            placeholder="ditto lam=1 digits",
            type="search",
            help="Names, or settings with a value: lam=1, lr=0.05, seed=2",
            on_change=browser.catch_up,
        )
        statuses = choice("Status", "status", list(wording.STATUS), wording.STATUS.__getitem__)
        algorithms = choice("Method", "method", sorted({run.algorithm for run in runs}))
        datasets = choice("Data set", "dataset", sorted({dataset_of(run) for run in runs}), title_of_data)
        since, until = days()
        with_archived = st.toggle("Archived too", key="archived", bind="query-params", on_change=browser.catch_up)
    return Filter(text or "", statuses, algorithms, datasets, since, until), with_archived


def choice(label: str, name: str, options: list[str], title: Callable[[str], str] = str) -> list[str]:
    """A multiple choice; an empty one matches everything. In the address as ``?status=done,failed``.

    Values in the address are offered even if no run has them: a view of failed runs is empty if none failed.
    """
    key = f"library_{name}"
    said = [value for value in st.query_params.get(name, "").split(",") if value]
    known = set(wording.STATUS) if name == "status" else set(said) | set(options)
    said = [value for value in dict.fromkeys(said) if value in known]
    browser.show(key, said)

    def write() -> None:
        browser.put(**{name: ",".join(st.session_state[key]) or None})

    st.multiselect(
        label,
        list(dict.fromkeys([*options, *said])),
        key=key,
        placeholder="any",
        format_func=title,
        on_change=browser.pressed,
        args=(key, write),
    )
    return said


def days() -> tuple[datetime | None, datetime | None]:
    """When runs were queued: a window up to now, or two days."""
    when = address.pick("Queued", WHEN, "when", "any")
    first = last = None
    if when == "days":
        bound: Any = {"bind": "query-params", "format": "YYYY-MM-DD", "on_change": browser.catch_up}
        first = st.date_input("From", None, key="from", **bound)
        last = st.date_input("To", None, key="to", **bound)
    return window(when, _day(first), _day(last), datetime.now(zone()))


def zone() -> ZoneInfo:
    """The reader's time zone, if the browser reports it and this machine knows it; else UTC."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def clear() -> None:
    """Show all runs again; order and grouping stay."""
    browser.put(**dict.fromkeys(PICKED))
    for name, nothing in TYPED.items():
        st.session_state[name] = nothing


def title_of_data(name: str) -> str:
    return wording.TITLES.get(name, name)


def _day(chosen: object) -> date | None:
    return chosen if isinstance(chosen, date) else None
