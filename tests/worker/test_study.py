"""A study advances by its rows alone: whoever is killed when, its choices and final runs are the same."""

import itertools
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import torch

from engine.cli import run as cli
from engine.cli.progress import reporter
from engine.config import tpe
from engine.config.schema import parse_experiment
from engine.config.study import Study
from engine.core.errors import InvalidConfig
from engine.exchange.bundle import CHOICES, write_bundle
from engine.exchange.import_runs import import_file
from engine.exchange.records import new_runs
from engine.federation.clients import Federation, build
from engine.simulation import simulate
from engine.worker import Dispatcher, Work
from engine.worker.dispatcher import STOP_GRACE_S, TRASH_S
from engine.worker.study import advance
from engine.worker.study_progress import progress_of
from storage import BUNDLE, Archive, RunRecord, StorageError, Store, new_archive
from storage.database import Database
from storage.studies import StudyTransaction
from tests.worker.fakes import Clock, FakeExecutor
from tests.worker.samples import rows
from tests.worker.test_dispatcher_kill_points import InPlace
from tests.worker.test_kill_points import Killed

STUDY: dict[str, Any] = {
    "name": "study",
    "dataset": "digits",
    "partition": {"name": "classes_per_client", "num_clients": 3, "val_fraction": 0.25, "test_fraction": 0.25},
    "model": "mlr",
    "training": {"rounds": 1, "local_steps": 1, "lr": 0.05},
    "algorithms": ["fedavg", "ditto"],
    "splits": [4],
    "seeds": [0],
    "tune": {"trials": 2},
}


def queued(store: Store, **changes: Any) -> int:
    config = parse_experiment(STUDY | changes)
    return store.experiments.create(config.name, config.raw, new_runs(config)).id


def run_to_the_end(store: Store) -> None:
    with Dispatcher(store, InPlace(store), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)


def outcome(store: Store, experiment_id: int) -> tuple[list[Any], list[Any]]:
    """The choices, and the final runs with all their numbers."""
    choices = sorted(
        (c.entry, c.split, c.trial, c.value, c.error, c.considered, c.tied)
        for c in store.studies.choices(experiment_id)
    )
    finals = [run for run in runs_of(store, experiment_id) if run.study["role"] == "final"]
    ordered = sorted(finals, key=lambda run: run.position)
    return choices, [(r.position, r.label, r.seed, r.split, r.digest, r.status, rows(store, r.id)) for r in ordered]


def runs_of(store: Store, experiment_id: int) -> list[Any]:
    return store.queue.runs(experiment_ids=[experiment_id], newest_first=False)


@pytest.fixture(scope="session")
def with_trials(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The folder of a database with a study whose trials have all ended, and the id of its experiment."""
    folder = tmp_path_factory.mktemp("trials")
    store = Store(f"sqlite:///{shutil.copy(empty_database, folder / 'fedscape.db')}")
    experiment_id = queued(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "_advance", lambda *_: None)
        run_to_the_end(store)
    assert store.queue.counts() == {"done": 4} and store.studies.choices(experiment_id) == []
    store.close()
    return folder, experiment_id


@pytest.fixture
def trials_done(store: Store, with_trials: tuple[Path, int]) -> int:
    """A study whose trials have all ended, while no dispatcher runs."""
    folder, experiment_id = with_trials
    store.close()
    shutil.copytree(folder, Path(sa.make_url(store.url).database or "").parent, dirs_exist_ok=True)
    return experiment_id


@pytest.mark.slow
def test_a_dispatched_study_chooses_and_then_runs_defaults_and_choices(store: Store) -> None:
    experiment_id = queued(store)
    run_to_the_end(store)
    choices = store.studies.choices(experiment_id)
    assert {(c.entry, c.split, c.considered) for c in choices} == {("ditto", 4, 2), ("fedavg", 4, 2)}
    runs = runs_of(store, experiment_id)
    assert {run.status for run in runs} == {"done"}
    trials, finals = ([run for run in runs if run.study["role"] == role] for role in ("trial", "final"))
    expected = {(c.entry, 0) for c in choices} | {(c.entry, c.trial) for c in choices}
    assert {(run.study["entry"], run.study["trial"]) for run in finals} == expected and len(finals) == len(expected)
    assert all(store.metrics.array_at(run.id, "personalized.accuracy") is None for run in trials)
    assert all(store.metrics.array_at(run.id, "personalized.accuracy") is not None for run in finals)
    assert min(run.created_at for run in finals) >= max(c.chosen_at for c in choices)


def test_advancing_again_changes_nothing(store: Store, trials_done: int) -> None:
    assert len(advance(store, trials_done)) >= 2
    before = store.studies.choices(trials_done), runs_of(store, trials_done)
    assert advance(store, trials_done) == []
    assert (store.studies.choices(trials_done), runs_of(store, trials_done)) == before


@contextmanager
def killed_before_statement(store: Store, number: int) -> Iterator[list[str]]:
    """The process dies before it sends this statement to the database; yields the statements that it has sent."""
    sent: list[str] = []

    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if len(sent) == number:
            raise Killed
        sent.append(statement)

    sa.event.listen(store._database.engine, "before_cursor_execute", count)
    try:
        yield sent
    finally:
        sa.event.remove(store._database.engine, "before_cursor_execute", count)


def test_a_study_killed_between_any_two_statements_is_completed_by_the_next_call(
    store: Store, trials_done: int
) -> None:
    for number in itertools.count():
        with killed_before_statement(store, number) as sent, suppress(Killed):
            advance(store, trials_done)
            break
        assert store.studies.choices(trials_done) == [], f"half of it was stored after {sent[-1:]}"
        assert store.queue.counts() == {"done": 4}
    assert number > 8 and len(store.studies.choices(trials_done)) == 2
    assert len({run.position for run in runs_of(store, trials_done)}) == store.queue.counts()["queued"] + 4


@pytest.mark.slow
def test_a_study_killed_after_every_transaction_has_the_same_choices_and_finals(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = queued(store)
    run_to_the_end(store)
    expected = outcome(store, undisturbed)
    disturbed = queued(store)
    write = Database.write
    left = 0

    @contextmanager
    def dying(self: Database) -> Iterator[Any]:
        nonlocal left
        with write(self) as connection:
            yield connection
        left -= 1
        if left < 0:
            raise Killed

    for lives in itertools.count(2):
        with monkeypatch.context() as patch:
            left = lives
            patch.setattr(Database, "write", dying)
            lock = store.try_dispatcher_lock()
            with suppress(Killed):
                Dispatcher(store, InPlace(store), lock).run(threading.Event(), until_idle=True)
                break
            lock.release()
    lock.release()
    assert lives > 5 and outcome(store, disturbed) == expected


@pytest.mark.slow
def test_choices_are_the_same_if_the_labels_of_the_test_data_are_noise(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = {"tune": {"trials": 4}, "training": {"rounds": 2, "local_steps": 3, "lr": 0.05}}
    true = queued(store, **several)
    run_to_the_end(store)

    def with_noise(*given: Any) -> Federation:
        data = build(*given)
        noise = torch.randint(data.num_classes, data.test.rows.shape, generator=torch.Generator().manual_seed(0))
        return replace(data, test=replace(data.test, relabeled=noise))

    monkeypatch.setattr(simulate, "build", with_noise)
    noisy = queued(store, **several)
    run_to_the_end(store)
    (choices, finals), (chosen, again) = outcome(store, true), outcome(store, noisy)
    assert chosen == choices and {trial for _, _, trial, *_ in chosen} != {0}
    assert [run[:-1] for run in again] == [run[:-1] for run in finals]
    for run in runs_of(store, noisy):
        twin = next(r for r in runs_of(store, true) if r.position == run.position)
        last = [store.metrics.array_at(r.id, "personalized.val_accuracy") for r in (run, twin)]
        assert last[0].tolist() == last[1].tolist()
    accuracies = [
        [
            store.metrics.array_at(r.id, "personalized.accuracy")
            for r in runs_of(store, one)
            if r.study["role"] == "final"
        ]
        for one in (true, noisy)
    ]
    assert all(a.mean() > b.mean() for a, b in zip(*accuracies, strict=True)), "the final runs did read the noise"


@pytest.mark.slow
def test_a_cancelled_trial_holds_its_method_and_the_finals_until_it_is_retried(store: Store) -> None:
    experiment_id = queued(store)
    first = runs_of(store, experiment_id)[0]
    store.queue.request([first.id], "cancel")
    run_to_the_end(store)
    assert [c.entry for c in store.studies.choices(experiment_id)] == ["ditto"]
    assert all(run.study["role"] == "trial" for run in runs_of(store, experiment_id))
    store.queue.retry([first.id], ["cancelled"])
    run_to_the_end(store)
    assert {c.entry for c in store.studies.choices(experiment_id)} == {"ditto", "fedavg"}
    assert any(run.study["role"] == "final" for run in runs_of(store, experiment_id))


def test_a_failed_trial_counts_as_the_worst(store: Store, trials_done: int) -> None:
    trials = [run for run in runs_of(store, trials_done) if run.study["entry"] == "ditto"]
    with store._database.write() as connection:
        for run, status in zip(trials, ("failed", "done"), strict=True):
            connection.exec_driver_sql(f"UPDATE runs SET status = '{status}' WHERE id = {run.id}")
    advance(store, trials_done)
    (choice,) = [c for c in store.studies.choices(trials_done) if c.entry == "ditto"]
    assert (choice.trial, choice.considered, choice.tied) == (1, 2, 1)


def test_a_budget_of_gradients_adds_trials_until_it_is_spent(store: Store) -> None:
    experiment_id = queued(store, algorithms=["fedavg"], tune={"gradients": 3 * 20 * 3 + 1})
    run_to_the_end(store)
    trials = [run for run in runs_of(store, experiment_id) if run.study["role"] == "trial"]
    assert [run.study["trial"] for run in trials] == [0, 1, 2, 3]
    assert store.studies.choices(experiment_id)[0].considered == 4


def test_one_trial_is_the_defaults_and_their_finals_run_once(store: Store) -> None:
    experiment_id = queued(store, tune={"trials": 1})
    run_to_the_end(store)
    assert [c.trial for c in store.studies.choices(experiment_id)] == [0, 0]
    finals = [run.label for run in runs_of(store, experiment_id) if run.study["role"] == "final"]
    assert finals == ["fedavg", "ditto"]


@pytest.mark.slow
def test_a_dispatcher_of_given_runs_also_computes_the_finals_of_their_study(store: Store) -> None:
    experiment_id, other = queued(store), queued(store)
    ids = [run.id for run in runs_of(store, experiment_id)]
    with Dispatcher(store, InPlace(store), store.try_dispatcher_lock(), run_ids=ids) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
    assert any(run.study["role"] == "final" for run in runs_of(store, experiment_id))
    assert {run.status for run in runs_of(store, experiment_id)} == {"done"}
    assert {run.status for run in runs_of(store, other)} == {"queued"}


def test_a_study_continues_if_its_last_trial_ends_just_before_its_worker_is_killed(
    store: Store, dispatcher: Dispatcher, executor: FakeExecutor, clock: Clock
) -> None:
    experiment_id = queued(store, algorithms=["fedavg"], tune={"trials": 1})
    dispatcher.step()
    (ticket,) = executor.tickets

    def kill(killed: Work) -> None:
        store.queue.finish(ticket.run_id, ticket.epoch, "done")  # at the last moment
        executor.tickets.remove(killed)

    executor.kill = kill  # type: ignore[method-assign]
    store.queue.request([ticket.run_id], "pause")
    for clock.now in (1.0, 2.0 + STOP_GRACE_S):
        dispatcher.step()
    assert [run.study["role"] for run in runs_of(store, experiment_id)] == ["trial", "final"]


def set_status(store: Store, run_id: int, status: str) -> None:
    with store._database.write() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET status = '{status}' WHERE id = {run_id}")


class Turns:
    """Instead of a dispatcher: sets the status of runs in its nth turn."""

    def __init__(self, store: Store, changes: dict[int, dict[int, str]]) -> None:
        self.store, self.changes, self.taken = store, changes, 0

    def turn(self) -> None:
        self.taken += 1
        for run_id, status in self.changes.get(self.taken, {}).items():
            set_status(self.store, run_id, status)

    def also(self, run_ids: list[int]) -> None: ...


class Finals:
    """Instead of a dispatcher: computes final runs, but leaves it to others to queue them."""

    def __init__(self, store: Store, experiment_id: int) -> None:
        self.store, self.experiment_id, self.taken, self.new = store, experiment_id, 0, list[int]()

    def turn(self) -> None:
        self.taken += 1
        assert self.taken < 20, "the command does not end"
        if any(run.study["role"] == "final" for run in runs_of(self.store, self.experiment_id)):
            run_to_the_end(self.store)

    def also(self, run_ids: list[int]) -> None:
        self.new += run_ids


@pytest.mark.parametrize("is_queued_by", ["the command", "a dispatcher"])
def test_the_command_waits_for_finals_that_are_queued_while_it_looks(
    store: Store, trials_done: int, monkeypatch: pytest.MonkeyPatch, is_queued_by: str
) -> None:
    run_ids, driver = [run.id for run in runs_of(store, trials_done)], Finals(store, trials_done)

    def advancing(store: Store, experiment_id: int) -> list[int]:
        if is_queued_by == "a dispatcher":
            advance(store, experiment_id)  # just before
        return advance(store, experiment_id)

    monkeypatch.setattr(cli, "advance", advancing)
    assert cli._follow(store, run_ids, [trials_done], reporter(True), driver, []) == []
    finals = [run for run in runs_of(store, trials_done) if run.study["role"] == "final"]
    assert finals and {run.id for run in finals} <= set(run_ids) and {run.status for run in finals} == {"done"}
    assert driver.new == [run.id for run in finals]


@pytest.mark.parametrize("remove", ["into the trash", "for good"])
def test_the_command_ends_and_names_the_reason_if_runs_of_a_study_were_deleted(
    store: Store, trials_done: int, remove: str
) -> None:
    run_ids, driver = [run.id for run in runs_of(store, trials_done)], Finals(store, trials_done)
    ditto = [run.id for run in runs_of(store, trials_done) if run.study["entry"] == "ditto"]
    one, both = "1 trial of ditto was deleted; restore it", "2 trials of ditto were deleted; restore them"
    reasons = [f"{reason} from the trash, or run the study again" for reason in (one, both)]
    for gone, reason in zip((ditto[-1:], ditto), reasons, strict=True):
        (store.trash.put if remove == "into the trash" else store.queue.delete)(gone)
        found = cli._follow(store, run_ids, [trials_done], reporter(True), driver, [])
        is_known = gone != ditto or remove == "into the trash"  # nothing is left of trials that were deleted for good
        assert found == [f"experiment {trials_done}: {reason if is_known else cli.DELETED}"], gone
    if remove == "into the trash":
        store.trash.restore(ditto)
        assert cli._follow(store, run_ids, [trials_done], reporter(True), driver, []) == []
        store.trash.put([run.id for run in runs_of(store, trials_done) if run.study["role"] == "final"])
        assert len(cli._follow(store, run_ids, [trials_done], reporter(True), driver, [])) == 1


def test_the_command_ends_if_one_seed_of_the_last_trial_was_deleted(store: Store) -> None:
    experiment_id = queued(store, algorithms=["fedavg"], tune={"trials": 1, "seeds": [1000, 1001]})
    run_ids = [run.id for run in runs_of(store, experiment_id)]
    for run_id in run_ids:
        set_status(store, run_id, "done")
    store.queue.delete(run_ids[-1:])
    (reason,) = cli._follow(store, run_ids, [experiment_id], reporter(True), Finals(store, experiment_id), [])
    assert "1 trial of fedavg was deleted" in reason


@pytest.mark.parametrize("which", ["one", "all"])
def test_final_runs_that_were_deleted_for_good_are_not_computed_again(store: Store, which: str) -> None:
    experiment_id = queued(store, algorithms=["fedavg"])
    run_to_the_end(store)
    finals = [run.id for run in runs_of(store, experiment_id) if run.study["role"] == "final"]
    store.trash.put(finals[:1] if which == "one" else finals)
    store.trash.empty()
    left = store.queue.ids()
    run_to_the_end(store)  # as after a restart
    assert advance(store, experiment_id) == [] and store.queue.ids() == left
    if which == "all":
        assert progress_of(store, experiment_id).in_words() == ["trials 2 of 2, no final runs"]


def test_a_dispatcher_of_given_runs_leaves_the_studies_of_others_alone(store: Store, trials_done: int) -> None:
    own = queued(store, algorithms=["fedavg"], tune={"trials": 1})
    ids = [run.id for run in runs_of(store, own)]
    with Dispatcher(store, InPlace(store), store.try_dispatcher_lock(), run_ids=ids) as dispatcher:
        store.trash.put([runs_of(store, trials_done)[0].id])
        dispatcher.run(threading.Event(), until_idle=True)
    assert store.studies.choices(trials_done) == [] and len(runs_of(store, trials_done)) == 3
    assert [run.status for run in runs_of(store, own)] == ["done", "done"]


def test_a_study_whose_trial_is_restored_continues_without_a_restart(
    store: Store, trials_done: int, dispatcher: Dispatcher, clock: Clock
) -> None:
    trial = runs_of(store, trials_done)[0].id
    store.trash.put([trial])
    dispatcher.step(0)
    assert progress_of(store, trials_done).in_words() == [
        "trials 3 of 4, final runs wait for 1 method",
        "1 trial of fedavg was deleted; restore it from the trash, or run the study again",
    ]
    store.trash.restore([trial])
    clock.now += TRASH_S
    dispatcher.step(0)
    assert {choice.entry for choice in store.studies.choices(trials_done)} == {"fedavg", "ditto"}
    assert progress_of(store, trials_done).finals


def test_cancelled_final_runs_are_not_counted_as_done(store: Store, trials_done: int, dispatcher: Dispatcher) -> None:
    dispatcher.step(0)
    finals = progress_of(store, trials_done).finals
    store.queue.request([finals[-1].id], "cancel")
    line, advice = progress_of(store, trials_done).in_words()
    assert line.endswith(f"final runs 0 of {len(finals)}")
    assert advice == "1 final run was cancelled; retry it"


def test_a_study_continues_if_the_repeated_trial_it_waits_for_is_deleted(
    store: Store, trials_done: int, dispatcher: Dispatcher, clock: Clock
) -> None:
    (again,) = store.queue.rerun([runs_of(store, trials_done)[0].id])
    store.queue.request([again.id], "pause")
    dispatcher.step(0)
    assert [choice.entry for choice in store.studies.choices(trials_done)] == ["ditto"]
    store.trash.put([again.id])
    clock.now += TRASH_S
    dispatcher.step(0)
    assert len(store.studies.choices(trials_done)) == 2


def test_the_last_trial_of_a_sequential_study_is_missed_while_it_is_in_the_trash(store: Store) -> None:
    experiment_id = queued(store, algorithms=["fedavg"], tune={"gradients": 1000})
    first, last = runs_of(store, experiment_id)
    store.trash.put([last.id])
    assert "1 trial of fedavg was deleted" in progress_of(store, experiment_id).held_up[0]
    store.trash.put([first.id])
    assert progress_of(store, experiment_id).in_words()[0] == "trials 0 of 0, final runs wait for 1 method"
    assert "2 trials of fedavg were deleted" in progress_of(store, experiment_id).held_up[0]


def test_the_command_ends_and_says_which_trials_to_retry(store: Store, trials_done: int) -> None:
    run_ids = [run.id for run in runs_of(store, trials_done)]
    set_status(store, run_ids[0], "cancelled")
    found = cli._follow(store, run_ids, [trials_done], reporter(True), Finals(store, trials_done), [])
    assert found == [f"experiment {trials_done}: 1 trial of fedavg was cancelled; retry it"]


def test_the_command_ends_if_the_study_itself_was_deleted(store: Store, trials_done: int) -> None:
    run_ids, driver = [run.id for run in runs_of(store, trials_done)], Finals(store, trials_done)
    store.queue.delete(run_ids)
    assert cli._follow(store, run_ids, [trials_done], reporter(True), driver, []) == []


def test_the_command_reads_a_run_that_has_ended_only_at_the_end(
    store: Store, trials_done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ids, last = [run.id for run in runs_of(store, trials_done)], max(store.queue.ids())
    asked: list[list[int]] = []

    def runs(store: Store, ids: list[int], with_partition: bool = True) -> list[RunRecord]:
        asked.append(ids)
        return read_runs(store, ids, with_partition)

    set_status(store, last, "running")
    read_runs = cli._runs
    monkeypatch.setattr(cli, "_runs", runs)
    cli._follow(store, run_ids[:], [], reporter(True), Turns(store, {3: {last: "done"}}), [])
    assert asked == [run_ids, [last], [last], run_ids]


def test_the_command_waits_for_a_run_that_was_resumed_after_it_ended(store: Store, trials_done: int) -> None:
    run_ids = [run.id for run in runs_of(store, trials_done)]
    first, last = run_ids[0], run_ids[-1]
    turns = Turns(store, {2: {first: "running", last: "done"}, 4: {first: "done"}})
    set_status(store, first, "cancelled")
    set_status(store, last, "running")
    cli._follow(store, run_ids, [], reporter(True), turns, [])
    assert turns.taken == 4


def test_an_experiment_that_cannot_be_read_any_more_does_not_stop_the_dispatcher(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    experiment_id = queued(store)
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE experiments SET config = '{\"tune\": {}}'")
    run_to_the_end(store)
    assert {run.status for run in runs_of(store, experiment_id)} == {"done"}
    assert "cannot advance" in caplog.text


def test_a_study_whose_rows_the_database_refuses_does_not_stop_the_dispatcher(
    store: Store, trials_done: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refusing(self: StudyTransaction) -> bool:
        if self.experiment_id == trials_done:
            raise StorageError("unsupported Unicode escape sequence")
        return False

    monkeypatch.setattr(StudyTransaction, "is_imported", property(refusing))
    other = queued(store, algorithms=["fedavg"], tune={"trials": 1})
    run_to_the_end(store)
    assert [run.status for run in runs_of(store, other)] == ["done", "done"]
    assert store.studies.choices(trials_done) == []
    assert f"the study of experiment {trials_done} cannot advance" in caplog.text


@pytest.mark.slow
def test_a_bundle_carries_a_study_with_its_choices(store: Store, tmp_path: Path) -> None:
    experiment_id = queued(store)
    run_to_the_end(store)
    write_bundle(store, tmp_path / "study.zip", runs_of(store, experiment_id))
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    other.ensure_schema()
    (imported,) = import_file(other, tmp_path / "study.zip").experiments
    choices, finals = outcome(other, imported.id)
    expected, ran = outcome(store, experiment_id)
    assert choices == expected
    assert sorted((label, split, digest) for _, label, _, split, digest, *_ in finals) == sorted(
        (label, split, digest) for _, label, _, split, digest, *_ in ran
    )
    assert advance(other, imported.id) == []
    assert [run.study for run in runs_of(other, imported.id)] == [run.study for run in runs_of(store, experiment_id)]
    assert import_file(other, tmp_path / "study.zip").experiments == ()
    other.close()


@pytest.mark.parametrize("is_imported", [True, False])
def test_a_study_whose_runs_are_all_in_the_trash_queues_nothing(
    store: Store, tmp_path: Path, is_imported: bool
) -> None:
    experiment_id = queued(store, tune={"gradients": 1000})
    ditto = [run.id for run in runs_of(store, experiment_id) if run.study["entry"] == "ditto"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "_advance", lambda *_: None)
        run_to_the_end(store)
    if is_imported:
        write_bundle(store, tmp_path / "study.zip", [run for run in runs_of(store, experiment_id) if run.id in ditto])
        store.queue.delete(store.queue.ids())
        experiment_id = import_file(store, tmp_path / "study.zip").experiments[0].id
    store.trash.put(store.queue.ids())
    run_to_the_end(store)  # as after a restart
    assert advance(store, experiment_id) == [] and store.queue.ids() == []


def test_a_bundle_with_a_choice_of_no_study_is_refused(store: Store, tmp_path: Path) -> None:
    experiment_id = queued(store, tune={"trials": 1})
    run_to_the_end(store)
    whole, forged = tmp_path / "study.zip", tmp_path / "forged.zip"
    write_bundle(store, whole, runs_of(store, experiment_id))
    with Archive(whole, BUNDLE) as archive, new_archive(forged, BUNDLE) as changed:
        for member in archive.members:
            data = archive.read(member)
            changed.add(member, data.replace(b'"entry": "ditto"', b'"entry": "other"') if member == CHOICES else data)
        changed.facts = {"runs": 4}
    with pytest.raises(InvalidConfig, match="'other' on split 4 is not tuned"):
        import_file(store, forged)


def test_the_trials_of_a_study_are_read_with_their_validation(store: Store, trials_done: int) -> None:
    first, *_ = runs_of(store, trials_done)
    store.queue.rerun([first.id])
    trials = store.studies.trials(trials_done)
    assert sorted((t.entry, t.split, t.trial) for t in trials) == sorted(
        (entry, 4, trial) for entry in ("fedavg", "ditto") for trial in (0, 1)
    )
    again = next(t for t in trials if (t.entry, t.trial) == ("fedavg", 0))
    assert again.run.id > first.id and again.accuracy is None and again.gradients == 0
    done = next(t for t in trials if (t.entry, t.trial) == ("ditto", 1))
    assert done.gradients > 0 and len(done.accuracy) == len(done.loss) == len(done.sizes) == 3
    assert advance(store, trials_done) == [], "a repeated trial has to end first"


def test_settings_are_chosen_without_the_accuracies_of_malicious_clients(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, float] = {}

    def next_point(study: Study, entry: str, split: int, values: dict[int, float], points: Any) -> None:
        seen.update(values)

    monkeypatch.setattr(Study, "next_point", next_point)
    attack = {"name": "labels", "share": 0.34}
    experiment_id = queued(store, algorithms=["local_train"], attack=attack, tune={"gradients": 3 * 20 * 3 - 1})
    run_to_the_end(store)
    benign = {}
    for trial in store.studies.trials(experiment_id):
        assert trial.malicious.sum() == 1
        benign[trial.trial] = float(trial.accuracy[~trial.malicious].astype(float).mean())
        assert benign[trial.trial] != float(trial.accuracy.astype(float).mean())
    assert len(benign) == 3 and seen == {k: benign[k] for k in (0, 1)}
    assert store.studies.choices(experiment_id)[0].value == max(benign.values())


TPE = {"sampler": "tpe", "trials": 3}


@pytest.fixture
def short_startup(monkeypatch: pytest.MonkeyPatch) -> None:
    """TPE draws from trial 2 on."""
    pytest.importorskip("optuna")
    monkeypatch.setattr(tpe, "STARTUP", 2)


def points_of(store: Store, experiment_id: int, role: str = "trial") -> dict[tuple[str, int], Any]:
    places = [run.study for run in runs_of(store, experiment_id)]
    return {(p["entry"], p["trial"]): p.get("point") for p in places if p["role"] == role}


@pytest.mark.slow
def test_a_study_with_tpe_draws_its_later_trials_one_after_another(store: Store, short_startup: None) -> None:
    experiment_id = queued(store, tune=TPE | {"trials": 4})
    assert store.queue.counts() == {"queued": 4}
    assert progress_of(store, experiment_id).in_words() == ["trials 0 of 8, final runs wait for 2 methods"]
    run_to_the_end(store)
    trials, finals = points_of(store, experiment_id), points_of(store, experiment_id, "final")
    assert {key: len(point) for key, point in trials.items() if point} == {
        ("fedavg", 2): 1,
        ("fedavg", 3): 1,
        ("ditto", 2): 2,
        ("ditto", 3): 2,
    }
    assert {c.considered for c in store.studies.choices(experiment_id)} == {4}
    assert finals and finals == {key: trials[key] for key in finals}
    assert {run.status for run in runs_of(store, experiment_id)} == {"done"}
    runs = {(r.study["role"], r.study["entry"], r.study["trial"]): r for r in runs_of(store, experiment_id)}
    for entry, trial in itertools.product(("fedavg", "ditto"), (2, 3)):
        before, drawn = runs["trial", entry, trial - 1], runs["trial", entry, trial]
        assert before.finished_at is not None and before.finished_at <= drawn.created_at
    assert {(t.entry, t.trial) for t in store.studies.trials(experiment_id)} == trials.keys()


@pytest.mark.slow
def test_a_draw_depends_on_the_trials_of_its_method_only(store: Store, short_startup: None) -> None:
    together = queued(store, tune=TPE)
    run_to_the_end(store)
    apart = queued(store, tune=TPE)
    later = [run.id for run in runs_of(store, apart) if run.study["entry"] == "fedavg"]
    store.queue.request(later, "cancel")
    run_to_the_end(store)
    store.queue.retry(later, ["cancelled"])
    run_to_the_end(store)
    assert points_of(store, apart) == points_of(store, together)
    assert outcome(store, apart) == outcome(store, together)


@pytest.mark.slow
def test_a_budget_of_gradients_is_spent_with_tpe_as_well(store: Store, short_startup: None) -> None:
    experiment_id = queued(store, algorithms=["fedavg"], tune={"sampler": "tpe", "gradients": 3 * 20 * 3 + 1})
    run_to_the_end(store)
    found = points_of(store, experiment_id)
    assert {trial: bool(point) for (_, trial), point in found.items()} == {0: False, 1: False, 2: True, 3: True}


@pytest.mark.slow
def test_a_study_killed_between_any_two_statements_of_a_draw_has_the_same_trials(
    store: Store, short_startup: None
) -> None:
    undisturbed = queued(store, tune=TPE)
    run_to_the_end(store)
    disturbed = queued(store, tune=TPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "_advance", lambda *_: None)
        run_to_the_end(store)
    for number in itertools.count():
        with killed_before_statement(store, number) as sent, suppress(Killed):
            new = advance(store, disturbed)
            break
        assert len(runs_of(store, disturbed)) == 4, f"half of it was stored after {sent[-1:]}"
    assert number > 8 and len(new) == 2
    assert advance(store, disturbed) == [], "a draw is made once"
    drawn = points_of(store, disturbed)
    assert drawn == points_of(store, undisturbed)
    run_to_the_end(store)
    assert outcome(store, disturbed) == outcome(store, undisturbed)


@pytest.mark.slow
def test_a_bundle_carries_the_points_of_a_study(store: Store, short_startup: None, tmp_path: Path) -> None:
    experiment_id = queued(store, tune=TPE)
    run_to_the_end(store)
    write_bundle(store, tmp_path / "study.zip", runs_of(store, experiment_id))
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    other.ensure_schema()
    (imported,) = import_file(other, tmp_path / "study.zip").experiments
    for role in ("trial", "final"):
        assert points_of(other, imported.id, role) == points_of(store, experiment_id, role)
    assert outcome(other, imported.id)[0] == outcome(store, experiment_id)[0]
    other.close()


@pytest.mark.slow
def test_a_dispatcher_without_optuna_says_what_to_do_and_does_not_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tpe, "STARTUP", 2)
    experiment_id = queued(store, tune=TPE)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "optuna", None)
        tpe.optuna.cache_clear()
        run_to_the_end(store)
    tpe.optuna.cache_clear()
    assert store.queue.counts() == {"done": 4} and store.studies.choices(experiment_id) == []
    assert "tried again at the next start: tune.sampler: tpe needs Optuna, which is not installed; run " in caplog.text
    assert len(caplog.records) <= 4, "once for each run that ends"
    pytest.importorskip("optuna")
    run_to_the_end(store)
    assert len(store.studies.choices(experiment_id)) == 2


@pytest.mark.slow
def test_the_progress_of_a_study_is_read_without_its_methods(store: Store) -> None:
    experiment_id = queued(store)
    assert progress_of(store, experiment_id).in_words() == ["trials 0 of 4, final runs wait for 2 methods"]
    store.queue.request([runs_of(store, experiment_id)[0].id], "cancel")
    run_to_the_end(store)
    found = progress_of(store, experiment_id)
    assert found.in_words() == [
        "trials 3 of 4, final runs wait for 1 method",
        "1 trial of fedavg was cancelled; retry it",
    ]
    store.queue.retry([runs_of(store, experiment_id)[0].id], ["cancelled"])
    run_to_the_end(store)
    found = progress_of(store, experiment_id)
    assert found.in_words()[0].startswith("trials 4 of 4, final runs") and len(found.finals) >= 2
