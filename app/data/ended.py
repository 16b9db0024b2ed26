"""Notifications of runs that ended while the reader was on another page.

The browser remembers which runs were in progress at its last request, and the first run number that did not exist yet
(``12-45,47,60-``). It sends both; runs among them that have ended since are reported. So a run that ended before the
page was opened is never reported, a run that ends within a second is, and no clock is involved.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from app import wording
from app.data.comparison import run_name
from app.state import links
from app.wording import spans
from storage import RunRecord, Status, Store
from storage.models import MAX_ID

NEWS: tuple[Status, ...] = ("done", "failed", "diverged")  # cancelled runs are not reported
MAX_RUNS = 2000
MAX_LINKED = 50


def parse_spans(text: str) -> list[int]:
    """The inverse of ``spans``, for the first MAX_RUNS numbers, repeated ones included; invalid parts are ignored."""
    found: list[int] = []
    for part in text.split(","):
        ends = part.strip().split("-")
        if len(ends) > 2 or not all(end.isdecimal() and len(end) < len(str(MAX_ID)) for end in ends):
            continue
        first, last = int(ends[0]), int(ends[-1])
        found += range(first, min(last + 1, first + MAX_RUNS - len(found)))
        if len(found) == MAX_RUNS:
            break
    return list(dict.fromkeys(found))


def first_new(text: str) -> int | None:
    """``12-45,60-`` -> 60: runs with this number or higher are new. The lowest of several, None without one."""
    numbers = [part.strip()[:-1] for part in text.split(",") if part.strip().endswith("-")]
    return min((int(n) for n in numbers if n.isdecimal() and len(n) < len(str(MAX_ID))), default=None)


def news(store: Store, active: Iterable[int], watched: Iterable[int]) -> dict[str, Any] | None:
    """The notification for runs in ``watched`` that are no longer ``active``; None if there is none."""
    gone = sorted(set(watched).difference(active))
    if not gone:
        return None
    ended = store.queue.runs(
        run_ids=gone, statuses=NEWS, include_archived=True, newest_first=False, with_partition=False
    )
    ours = [run for run in ended if run.epoch]  # imported runs were not computed here
    return toast(ours) if ours else None


def toast(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """One toast for all of them, with links."""
    return {"ids": spans(run.id for run in runs), "text": _text(runs), "links": _links(runs)}


def _text(runs: Sequence[RunRecord]) -> str:
    if len(runs) == 1:
        return _sentence(runs[0])
    counts = {status: sum(run.status == status for run in runs) for status in NEWS}
    summary = ", ".join(f"{n} {wording.STATUS[status]}" for status, n in counts.items() if n)
    return f"{wording.plural(len(runs), 'run')} have ended: {summary}."


def _sentence(run: RunRecord) -> str:
    match run.status:
        case "failed":
            return f"{run_name(run)} failed."
        case "diverged":
            return f"{run_name(run)} diverged at round {max(run.round, 0)}."
        case _:
            return f"{run_name(run)} is done."


def _links(runs: Sequence[RunRecord]) -> list[dict[str, str]]:
    """A whole experiment is linked by its id, not by a list of runs."""
    experiments = {run.experiment_id for run in runs}
    what: dict[str, object] = {"experiment": experiments.pop()} if len(experiments) == 1 else {}
    what = what or {"runs": ",".join(str(run.id) for run in runs[-MAX_LINKED:])}
    pages = {"live": "Live", "compare": "Compare"} if any(run.status == "done" for run in runs) else {"live": "Live"}
    return [{"label": label, "href": links.link(page, **what)} for page, label in pages.items()]
