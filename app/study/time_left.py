"""When a study will be finished: its runs in the queue, and the final runs that follow them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from app.data import forecast, queries
from app.study.study import Study, study_entry
from storage import RunRecord


def left_s(study: Study) -> float | None:
    """Estimated seconds until all final runs have ended; None if that is unknown.

    It is unknown while no worker runs or no run has been timed, while a run is paused or a cancelled or deleted trial
    holds up the final runs, and while later trials still depend on earlier results.
    """
    progress = study.progress
    has_all = progress.trials.keys() >= set(study.plan.tuned)  # else those of a method were deleted for good
    if progress.held_up or not has_all or (study.plan.is_sequential and progress.undecided):
        return None
    store, following = queries.store(), list(to_come(study))
    found = forecast.of_queue(store, [*store.queue.waiting(), *following])
    own = [run for run in (*study.runs, *following) if not run.is_finished]
    ends = [found.ends_s.get(run.id) for run in own]
    return max((end for end in ends if end is not None), default=None) if None not in ends else None


def to_come(study: Study) -> Iterator[RunRecord]:
    """Stand-ins for the final runs that are not queued yet, as many as there can be, at the pace of their trials.

    Their ids are unused. A setting that is not chosen yet may differ from the defaults, which are trained as well.
    """
    if study.finals or not study.progress.undecided:  # deleted ones do not come again
        return
    ids = count(-1, -1)
    first = {(own["entry"], run.split): run for run in reversed(study.trials) for own in [study_entry(run)]}
    for entry in study.plan.entries:
        for split in study.splits:
            like, choice = first.get((entry, split)) or first[entry, study.splits[0]], study.choice(entry, split)
            is_default = study.plan.max_trials == 1 or (choice is not None and choice.trial == 0)
            for _ in range((1 if is_default else 2) * len(study.seeds)):
                yield _queued(like, study.plan.entries[entry].training.rounds, next(ids))


def _queued(like: RunRecord, rounds: int, run_id: int) -> RunRecord:
    return replace(like, id=run_id, status="queued", rounds=rounds, round=-1, seconds_per_round=None)
