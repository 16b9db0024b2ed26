"""Actions on many runs: which runs they apply to, the messages about the others, and the results."""

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
    """One run per status, numbered from 1."""
    return [replace(run, id=i, status=status) for i, status in enumerate(statuses, start=1)]


@pytest.mark.parametrize("name", FIT)
def test_an_action_applies_to_its_statuses(name: str, a_run: RunRecord) -> None:
    runs = of(a_run, *STATUSES)
    assert tuple(runs[i - 1].status for i in fitting(ACTIONS[name], runs)) == FIT[name]


def test_the_message_says_what_was_done_and_why_not_to_the_others(a_run: RunRecord) -> None:
    runs = of(a_run, "queued", "paused", "running", "done", "failed")
    assert outcome(ACTIONS["cancel"], runs, 5) == "Cancelled 3 runs, 1 of them shortly; 2 have already ended."
    assert outcome(ACTIONS["pause"], runs[1:3], 2) == "Paused 1 run; this takes a moment; 1 is already paused."
    assert outcome(ACTIONS["retry"], runs[:1], 1) == "Queued no runs again; 1 has not failed."
    assert outcome(ACTIONS["archive"], runs[:1], 3) == "Archived 1 run; 2 no longer exist."


def test_a_pending_pause_can_be_withdrawn(a_run: RunRecord) -> None:
    pausing = replace(a_run, status="running", control="pause")
    assert fitting(ACTIONS["resume"], [pausing]) == [1] and fitting(ACTIONS["pause"], [pausing]) == []
    assert fitting(ACTIONS["cancel"], [replace(pausing, control="cancel")]) == []


def test_an_equal_priority_is_not_set_again(a_run: RunRecord) -> None:
    queued = replace(a_run, status="queued", priority=1)
    assert fitting(bulk.priority("high"), [queued]) == [] and fitting(bulk.priority("low"), [queued]) == [1]


def test_actions_use_the_current_status(filled_store: Store) -> None:
    waiting = [run.id for run in filled_store.queue.rerun([1, 2, 3])]
    assert actions.perform("high priority", waiting).text == "Set 3 runs to high priority."
    assert actions.perform("pause", waiting[:2]).text == "Paused 2 runs."
    assert actions.perform("resume", waiting).text == "Resumed 2 runs; 1 is not paused."
    message = actions.perform("cancel", [1, *waiting])
    assert message.text == "Cancelled 3 runs; 1 has already ended." and message.kind == "success"
    assert {run.status for run in filled_store.queue.runs(run_ids=waiting)} == {"cancelled"}
    assert {run.priority for run in filled_store.queue.runs(run_ids=waiting)} == {1}


def test_an_action_that_applies_to_no_run_is_no_success(filled_store: Store) -> None:
    message = actions.perform("cancel", [1, 2])
    assert message.text == "Cancelled no runs; 2 have already ended." and message.kind == "info"


def test_an_experiment_is_renamed_and_archived_as_a_whole(filled_store: Store) -> None:
    runs = filled_store.queue.runs()
    found = experiment.of(runs)
    assert found is not None and found.num_runs == 8
    assert experiment.rename(found, "  ").kind == "error"
    assert "“digits, again”" in experiment.rename(found, "digits,  again ").text
    message = experiment.archive(found, True)
    assert filled_store.queue.runs() == []
    message.offers[0].do(*message.offers[0].arguments)
    assert [run.experiment_name for run in filled_store.queue.runs()] == ["digits, again"] * 8


def test_dropping_models_reports_the_freed_bytes(filled_store: Store) -> None:
    file = filled_store.artifacts.write_file(1, "model-last", 5, bytes(1500))
    filled_store.artifacts.register(1, None, file)
    assert models.drop([1, 2]).text == "Dropped models, freeing 1.5 kB."
    assert filled_store.artifacts.list(1) == []
