"""Which runs have ended while a reader looked elsewhere, and how that is said.

The browser knows which runs were under way when it last asked, and from which number on there were none yet
(``12-45,47,60-``). It sends that along; whichever of them have ended since are news. So nothing that ended before a
page was opened is ever told, a run that is over within a second is, and no clock decides.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from app import wording
from app.data.comparison import run_name
from app.state import links
from app.state.url_state import LARGEST_ID
from storage import RunRecord, Status, Store

NEWS: tuple[Status, ...] = ("done", "failed", "diverged")  # a cancelled run is no news to who cancelled it
MOST_WATCHED = 2000
MOST_LINKED = 50


def spans(ids: Iterable[int]) -> str:
    """``[1, 2, 3, 7]`` -> ``1-3,7``."""
    parts: list[list[int]] = []
    for number in sorted(set(ids)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def parse_spans(text: str) -> list[int]:
    """The inverse of ``spans``, up to MOST_WATCHED numbers; whatever is no span is passed over."""
    found: dict[int, None] = {}
    for part in text.split(","):
        ends = part.strip().split("-")
        if len(ends) > 2 or not all(end.isdecimal() and len(end) < len(str(LARGEST_ID)) for end in ends):
            continue
        first, last = int(ends[0]), int(ends[-1])
        found |= dict.fromkeys(range(first, min(last + 1, first + MOST_WATCHED)))
        if len(found) >= MOST_WATCHED:
            break
    return list(found)[:MOST_WATCHED]


def first_new(text: str) -> int | None:
    """``12-45,60-`` -> 60: what is numbered so or higher has come since. The lowest of several, None without one."""
    numbers = [part.strip()[:-1] for part in text.split(",") if part.strip().endswith("-")]
    return min((int(n) for n in numbers if n.isdecimal() and len(n) < len(str(LARGEST_ID))), default=None)


def news(store: Store, active: Iterable[int], watched: Iterable[int]) -> dict[str, Any] | None:
    """What to tell of those ``watched`` that are not ``active`` any more; None where there is nothing."""
    gone = sorted(set(watched).difference(active))
    if not gone:
        return None
    ended = store.queue.runs(
        run_ids=gone, statuses=NEWS, include_archived=True, newest_first=False, with_partition=False
    )
    ours = [run for run in ended if run.epoch]  # what was imported was never under way here
    return told(ours) if ours else None


def told(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """One toast for all of them, and where to look."""
    return {"ids": spans(run.id for run in runs), "text": _text(runs), "links": _links(runs)}


def _text(runs: Sequence[RunRecord]) -> str:
    if len(runs) == 1:
        return _sentence(runs[0])
    counts = {status: sum(run.status == status for run in runs) for status in NEWS}
    said = ", ".join(f"{n} {wording.STATUS[status]}" for status, n in counts.items() if n)
    return f"{wording.plural(len(runs), 'run')} have ended: {said}."


def _sentence(run: RunRecord) -> str:
    match run.status:
        case "failed":
            return f"{run_name(run)} has failed."
        case "diverged":
            return f"{run_name(run)} has diverged at round {max(run.round, 0)}."
        case _:
            return f"{run_name(run)} is done."


def _links(runs: Sequence[RunRecord]) -> list[dict[str, str]]:
    """An experiment is named as a whole: it needs no long list."""
    experiments = {run.experiment_id for run in runs}
    what: dict[str, object] = {"experiment": experiments.pop()} if len(experiments) == 1 else {}
    what = what or {"runs": ",".join(str(run.id) for run in runs[-MOST_LINKED:])}
    pages = {"live": "Live", "compare": "Compare"} if any(run.status == "done" for run in runs) else {"live": "Live"}
    return [{"label": label, "href": links.link(page, **what)} for page, label in pages.items()]
