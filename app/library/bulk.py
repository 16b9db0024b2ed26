"""What can be asked of many runs at once: which of them it fits, and why it does not fit the others."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app import wording
from app.data import allowed_paths
from storage import RunRecord, Store

Reason = tuple[str, str]  # as it follows "1" and "2": has ended already, have ended already

ENDED: Reason = ("has ended already", "have ended already")
NOT_PAUSED: Reason = ("is not paused", "are not paused")
FOREIGN_DATA: Reason = (
    "was imported and its data are not below DATA_DIR",
    "were imported and their data are not below DATA_DIR",
)


@dataclass(frozen=True)
class Action:
    """``done`` has a place for how many runs; ``why_not`` answers None for a run that it fits."""

    title: str
    done: str
    why_not: Callable[[RunRecord], Reason | None]
    do: Callable[[Store, list[int]], object]
    takes_a_moment: bool = False  # for a run that is running


def fitting(action: Action, runs: Sequence[RunRecord]) -> list[int]:
    """The ids of those that it fits."""
    return [run.id for run in runs if action.why_not(run) is None]


def outcome(action: Action, runs: Sequence[RunRecord], asked: int) -> str:
    """``Cancelled 3 runs, 1 of them in a moment; 2 have ended already``, of the ``runs`` that were found of ``asked``.

    It is a sentence about runs as they were before.
    """
    fit = set(fitting(action, runs))
    gone = asked - len(runs)
    parts = [action.done.format(wording.plural(len(fit), "run") if fit else "no run")]
    running = sum(run.id in fit and run.status == "running" for run in runs)
    if action.takes_a_moment and running:
        parts[0] += ", which takes a moment" if running == len(fit) else f", {running} of them in a moment"
    left = Counter(reason for run in runs if (reason := action.why_not(run)))
    parts += [f"{wording.count(n)} {reason[n > 1]}" for reason, n in left.items()]
    if gone:
        parts.append(f"{wording.count(gone)} {'is' if gone == 1 else 'are'} not here any more")
    return "; ".join(parts) + "."


def priority(name: str) -> Action:
    """Of runs that have not ended: it counts whenever they wait for a slot."""
    value = wording.PRIORITIES[name]

    def why_not(run: RunRecord) -> Reason | None:
        if run.is_finished:
            return ENDED
        return (f"has {name} priority already", f"have {name} priority already") if run.priority == value else None

    done = f"Gave {{}} {name} priority"
    return Action(name.capitalize(), done, why_not, lambda store, ids: store.queue.prioritize(ids, value))


def _not_cancelled(run: RunRecord) -> Reason | None:
    if run.is_finished:
        return ENDED
    return ("is being cancelled already", "are being cancelled already") if run.control == "cancel" else None


def _not_paused(run: RunRecord) -> Reason | None:
    if run.status == "paused" or run.control == "pause":
        return "is paused already", "are paused already"
    return _not_cancelled(run)


def _not_resumed(run: RunRecord) -> Reason | None:
    if run.status == "paused" or run.control == "pause":
        return None
    return ENDED if run.is_finished else NOT_PAUSED


def _not_retried(run: RunRecord) -> Reason | None:
    return _not_rerun(run) if run.status in ("failed", "diverged") else ("has not failed", "have not failed")


def _not_rerun(run: RunRecord) -> Reason | None:
    return FOREIGN_DATA if allowed_paths.problem_of(run) else None


def _not_archived(run: RunRecord) -> Reason | None:
    return ("is archived already", "are archived already") if run.archived else None


def _not_brought_back(run: RunRecord) -> Reason | None:
    return None if run.archived else ("is not archived", "are not archived")


def not_while_running(run: RunRecord) -> Reason | None:
    if run.status != "running":
        return None
    return "is still running: cancel it first", "are still running: cancel them first"


ACTIONS = {
    "pause": Action(
        "Pause", "Paused {}", _not_paused, lambda s, ids: s.queue.request(ids, "pause"), takes_a_moment=True
    ),
    "resume": Action("Resume", "Resumed {}", _not_resumed, lambda s, ids: s.queue.resume(ids)),
    "cancel": Action(
        "Cancel", "Cancelled {}", _not_cancelled, lambda s, ids: s.queue.request(ids, "cancel"), takes_a_moment=True
    ),
    "rerun": Action("Run again", "Queued {} again", _not_rerun, lambda s, ids: s.queue.rerun(ids)),
    "retry": Action("Retry failed", "Queued {} again", _not_retried, lambda s, ids: s.queue.retry(ids)),
    "archive": Action("Archive", "Archived {}", _not_archived, lambda s, ids: s.queue.archive(ids)),
    "unarchive": Action(
        "Back from the archive",
        "Took {} out of the archive",
        _not_brought_back,
        lambda s, ids: s.queue.archive(ids, archived=False),
    ),
    "delete": Action("Delete", "Deleted {}", not_while_running, lambda s, ids: s.trash.put(ids)),
    **{f"{name} priority": priority(name) for name in wording.PRIORITIES},
}
