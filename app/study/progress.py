"""How far a study is: trials, choices and final runs, and when the test data was first used."""

from collections.abc import Sequence

from app.study.study import Study
from app.wording import capital, plural
from storage import RunRecord


def sentences(study: Study) -> list[str]:
    """``Trials 112 of 160, final runs wait for 3 methods.`` Nothing once all final runs have ended."""
    return [] if study.is_finished else [f"{capital(line)}." for line in study.progress.in_words()]


def opened(study: Study) -> str:
    """``The test data was opened once, on 22 Nov 2026 at 14:05 UTC, by 60 final runs.``"""
    at = study.opened_at
    if at is None:
        return ""
    return (
        f"The test data was opened once, on {at.day} {at:%b %Y} at {at:%H:%M} UTC, "
        f"by {plural(len(study.finals), 'final run')}."
    )


def seen_before(study: Study, runs: Sequence[RunRecord]) -> str:
    """``This test data was seen by 14 earlier runs.``: runs of other experiments that evaluated on it before."""
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
        and (run.config.get("evaluation") or {}).get("on", "both") == "both"
        and _data(run) in own
    ]
    return f"It was seen before by {plural(len(seen), 'earlier run')} of other experiments." if seen else ""


def _data(run: RunRecord) -> str:
    """Equal for runs with the same test data: data set, partition and split."""
    return repr((sorted(run.config["dataset"].items()), sorted(run.config["partition"].items()), run.split))
