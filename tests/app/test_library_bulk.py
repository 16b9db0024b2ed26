"""What can be asked of many runs: whom it fits, what is said of the others, and that it is done."""

from dataclasses import replace

import pytest

from app.library import actions, bulk, experiment, models
from app.library.bulk import ACTIONS, fitting, outcome
from storage import RunRecord, Status, Store

STATUSES: tuple[Status, ...] = ("queued", "running", "paused", "done", "failed", "cancelled", "diverged")
FIT: dict[str, tuple[Status, ...]] = {
    "pause": ("queued", "running"),
    "resume": ("paused",),
    "cancel": ("queued", "running", "paused"),
    "rerun": STATUSES,
    "retry": ("failed", "diverged"),
    "delete": tuple(status for status in STATUSES if status != "running"),
    "high priority": ("queued", "running", "paused"),
}


@pytest.fixture
def a_run(filled_store: Store) -> RunRecord:
    return filled_store.queue.get(1)


def of(run: RunRecord, *statuses: Status) -> list[RunRecord]:
    """One run each, numbered from 1."""
    return [replace(run, id=i, status=status) for i, status in enumerate(statuses, start=1)]


@pytest.mark.parametrize("name", FIT)
def test_an_action_fits_the_runs_it_says(name: str, a_run: RunRecord) -> None:
    runs = of(a_run, *STATUSES)
    assert tuple(runs[i - 1].status for i in fitting(ACTIONS[name], runs)) == FIT[name]


def test_what_was_done_is_said_with_why_not_to_the_others(a_run: RunRecord) -> None:
    runs = of(a_run, "queued", "paused", "running", "done", "failed")
    assert outcome(ACTIONS["cancel"], runs, 5) == "Cancelled 3 runs, 1 of them shortly; 2 have already ended."
    assert outcome(ACTIONS["pause"], runs[1:3], 2) == "Paused 1 run; this takes a moment; 1 is already paused."
    assert outcome(ACTIONS["retry"], runs[:1], 1) == "Queued no runs again; 1 has not failed."
    assert outcome(ACTIONS["archive"], runs[:1], 3) == "Archived 1 run; 2 no longer exist."


def test_a_pause_that_is_not_obeyed_yet_can_be_taken_back(a_run: RunRecord) -> None:
    pausing = replace(a_run, status="running", control="pause")
    assert fitting(ACTIONS["resume"], [pausing]) == [1] and fitting(ACTIONS["pause"], [pausing]) == []
    assert fitting(ACTIONS["cancel"], [replace(pausing, control="cancel")]) == []


def test_a_priority_that_a_run_has_is_not_given_again(a_run: RunRecord) -> None:
    queued = replace(a_run, status="queued", priority=1)
    assert fitting(bulk.priority("high"), [queued]) == [] and fitting(bulk.priority("low"), [queued]) == [1]


def test_runs_are_asked_as_they_stand_now(filled_store: Store) -> None:
    waiting = [run.id for run in filled_store.queue.rerun([1, 2, 3])]
    assert actions.perform("high priority", waiting).text == "Set 3 runs to high priority."
    assert actions.perform("pause", waiting[:2]).text == "Paused 2 runs."
    assert actions.perform("resume", waiting).text == "Resumed 2 runs; 1 is not paused."
    said = actions.perform("cancel", [1, *waiting])
    assert said.text == "Cancelled 3 runs; 1 has already ended." and said.kind == "success"
    assert {run.status for run in filled_store.queue.runs(run_ids=waiting)} == {"cancelled"}
    assert {run.priority for run in filled_store.queue.runs(run_ids=waiting)} == {1}


def test_where_it_fits_none_nothing_is_done_and_that_is_no_success(filled_store: Store) -> None:
    said = actions.perform("cancel", [1, 2])
    assert said.text == "Cancelled no runs; 2 have already ended." and said.kind == "info"


def test_an_experiment_is_renamed_and_put_away_as_a_whole(filled_store: Store) -> None:
    runs = filled_store.queue.runs()
    found = experiment.of(runs)
    assert found is not None and found.num_runs == 8
    assert experiment.rename(found, "  ").kind == "error"
    assert "“digits, again”" in experiment.rename(found, "digits,  again ").text
    said = experiment.archive(found, True)
    assert filled_store.queue.runs() == []
    said.offers[0].do(*said.offers[0].arguments)
    assert [run.experiment_name for run in filled_store.queue.runs()] == ["digits, again"] * 8


def test_dropped_models_are_gone_and_the_bytes_are_said(filled_store: Store) -> None:
    file = filled_store.artifacts.write_file(1, "model-last", 5, bytes(1500))
    filled_store.artifacts.register(1, None, file)
    assert models.drop([1, 2]).text == "Dropped the models of 2 runs, freeing 1.5 kB."
    assert filled_store.artifacts.list(1) == []
