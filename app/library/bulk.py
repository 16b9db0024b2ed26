"""Actions on many runs at once: which runs each fits, and why it does not fit the others."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app import wording
from app.access import permits
from app.access.roles import Action as Right
from app.data import allowed_paths
from storage import RunRecord, Store

Reason = tuple[str, str]  # as it follows "1" and "2": has already ended, have already ended

ENDED: Reason = ("has already ended", "have already ended")
NOT_PAUSED: Reason = ("is not paused", "are not paused")
NOT_THEIRS: Reason = ("has another owner", "have other owners")
FOREIGN_DATA: Reason = (
    "was imported and its data is outside DATA_DIR",
    "were imported and their data is outside DATA_DIR",
)


@dataclass(frozen=True)
class Action:
    """``done`` has a placeholder for the number of runs; ``why_not`` returns None for a run that it fits."""

    title: str
    done: str
    why_not: Callable[[RunRecord], Reason | None]
    do: Callable[[Store, list[int]], object]
    right: Right = "change"
    adds_runs: bool = False
    takes_a_moment: bool = False  # for a run that is running


def fitting(action: Action, runs: Sequence[RunRecord]) -> list[int]:
    """The ids of the runs that it fits."""
    allowed = permits.theirs(action.right, runs)
    return [run.id for run in runs if run.id in allowed and action.why_not(run) is None]


def outcome(action: Action, runs: Sequence[RunRecord], num_requested: int) -> str:
    """``Cancelled 3 runs, 1 of them shortly; 2 have already ended``.

    ``runs`` are those of the ``num_requested`` runs that exist, as they were before the action.
    """
    fit = set(fitting(action, runs))
    gone = num_requested - len(runs)
    parts = [action.done.format(wording.plural(len(fit), "run") if fit else "no runs")]
    running = sum(run.id in fit and run.status == "running" for run in runs)
    if action.takes_a_moment and running:
        parts[0] += "; this takes a moment" if running == len(fit) else f", {running} of them shortly"
    left = Counter(action.why_not(run) or NOT_THEIRS for run in runs if run.id not in fit)
    parts += [f"{wording.count(n)} {reason[n > 1]}" for reason, n in left.items()]
    if gone:
        parts.append(f"{wording.count(gone)} no longer {'exists' if gone == 1 else 'exist'}")
    return "; ".join(parts) + "."


def priority(name: str) -> Action:
    """The action that sets a priority, for runs that have not ended."""
    value = wording.PRIORITIES[name]

    def why_not(run: RunRecord) -> Reason | None:
        if run.is_finished:
            return ENDED
        return (f"already has {name} priority", f"already have {name} priority") if run.priority == value else None

    done = f"Set {{}} to {name} priority"
    return Action(name.capitalize(), done, why_not, lambda store, ids: store.queue.prioritize(ids, value))


def _not_cancelled(run: RunRecord) -> Reason | None:
    if run.is_finished:
        return ENDED
    return ("is already being cancelled", "are already being cancelled") if run.control == "cancel" else None


def _not_paused(run: RunRecord) -> Reason | None:
    if run.status == "paused" or run.control == "pause":
        return "is already paused", "are already paused"
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
    return ("is already archived", "are already archived") if run.archived else None


def _not_unarchived(run: RunRecord) -> Reason | None:
    return None if run.archived else ("is not archived", "are not archived")


def not_while_running(run: RunRecord) -> Reason | None:
    if run.status != "running":
        return None
    return "is still running; cancel it first", "are still running; cancel them first"


ACTIONS = {
    "pause": Action(
        "Pause", "Paused {}", _not_paused, lambda s, ids: s.queue.request(ids, "pause"), takes_a_moment=True
    ),
    "resume": Action("Resume", "Resumed {}", _not_resumed, lambda s, ids: s.queue.resume(ids)),
    "cancel": Action(
        "Cancel", "Cancelled {}", _not_cancelled, lambda s, ids: s.queue.request(ids, "cancel"), takes_a_moment=True
    ),
    "rerun": Action("Rerun", "Queued {} again", _not_rerun, lambda s, ids: s.queue.rerun(ids), adds_runs=True),
    "retry": Action("Retry failed", "Queued {} again", _not_retried, lambda s, ids: s.queue.retry(ids), adds_runs=True),
    "archive": Action("Archive", "Archived {}", _not_archived, lambda s, ids: s.queue.archive(ids)),
    "unarchive": Action(
        "Unarchive",
        "Unarchived {}",
        _not_unarchived,
        lambda s, ids: s.queue.archive(ids, archived=False),
    ),
    "delete": Action("Delete", "Deleted {}", not_while_running, lambda s, ids: s.trash.put(ids), "delete"),
    **{f"{name} priority": priority(name) for name in wording.PRIORITIES},
}
