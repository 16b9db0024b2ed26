"""How far a study is: trials, choices and final runs, and when the test data was first used."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from app.data import queries
from app.data.comparison import run_name
from app.study.study import Study
from app.study.time_left import left_s
from app.wording import capital, count, names, plural
from engine.config import tpe
from storage import RunRecord


def sentences(study: Study, now: datetime) -> list[str]:
    """``Trials 112 of 160, final runs wait for 3 methods; expected to end at about 14:20 UTC.``, and what
    holds them up.

    Nothing once all final runs have ended.
    """
    if study.is_finished:
        return []
    first, *others = study.progress.in_words()
    left = left_s(study)
    end = f"; expected to end {when(now + timedelta(seconds=left), now)}" if left else ""
    return [f"{capital(line)}." for line in (first + end, *others)]


def when(at: datetime, now: datetime) -> str:
    """``at about 14:20 UTC``, on another day with the date."""
    day = "" if at.date() == now.date() else f"on {at.day} {at:%b %Y} "
    return f"{day}at about {at:%H:%M} UTC"


def opened(study: Study) -> str:
    """``The test data was opened once, on 22 Nov 2026 at 14:05 UTC, by 60 final runs.``"""
    at = study.opened_at
    if at is None:
        return ""
    return (
        f"The test data was opened once, on {at.day} {at:%b %Y} at {at:%H:%M} UTC, "
        f"by {plural(len(study.finals), 'final run')}."
    )


def test_data(study: Study) -> str:
    """When the test data was opened, which runs were evaluated on it before, and what else to know."""
    runs = queries.runs(include_archived=True)
    origin = "Example results that ship with Fedscape." if study.experiment.example else opened(study)
    return " ".join(filter(None, [origin, seen_before(study, runs), *caveats(study)]))


def caveats(study: Study) -> list[str]:
    """What the settings were chosen on, where it differs from the final runs."""
    found, tune = [], study.plan.tune
    rounds = max((run.rounds for run in study.finals), default=0)
    if tune.rounds and tune.rounds < rounds:
        found.append(f"Settings were chosen at {tune.rounds} of {rounds} rounds.")
    if tune.per == "first" and len(study.splits) > 1:
        found.append(
            f"Settings were chosen on split {study.splits[0]} and used on all: the clients of the other splits hold "
            "some of its samples."
        )
    if lost := [run for run in study.finals if run.is_finished and run.status != "done"]:
        which = names(dict.fromkeys(run_name(run) for run in lost))
        one, many = "final run is left out because it", "final runs are left out because they"
        found.append(f"{plural(len(lost), one, many)} did not complete: {which}.")
    if tune.select == "loss":
        found.append("Settings were chosen by validation loss; figures of trials show the mean validation accuracy.")
    if tune.gradients:
        found.append(f"The budget is {count(tune.gradients)} gradient evaluations per method and split.")
    if tune.sampler == "tpe":
        found.append(f"Settings were drawn by TPE: {tpe.NOTE}.")
    return found


def seen_before(study: Study, runs: Sequence[RunRecord]) -> str:
    """``It was used before by 14 earlier runs of other experiments.``: runs evaluated on the same test data."""
    at = study.opened_at
    if at is None:
        return ""
    own = {_data(run) for run in study.finals}
    seen = [
        run
        for run in runs
        if run.experiment_id != study.experiment.id
        and run.round >= 0
        and run.started_at is not None
        and run.started_at < at
        and run.is_tested
        and _data(run) in own
    ]
    return f"It was used before by {plural(len(seen), 'earlier run')} of other experiments." if seen else ""


def _data(run: RunRecord) -> str:
    """Equal for runs with the same test data: data set, partition and split.

    Test samples are chosen before validation samples, so ``val_fraction`` does not matter.
    """
    partition = sorted((name, value) for name, value in run.config["partition"].items() if name != "val_fraction")
    return repr((sorted(run.config["dataset"].items()), partition, run.split))
