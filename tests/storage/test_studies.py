"""Choices are made once, and positions of an experiment are unique."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from storage import ExperimentNotFound, StorageError, Store
from storage.run_queue import FIRST_OF_RERUNS
from tests.storage.old_tables import first_version
from tests.storage.samples import new_run


def study(store: Store, **config: object) -> int:
    runs = [new_run(seed, position=10 * seed) for seed in (1, 0)]
    return store.experiments.create("study", {"tune": {}} | config, runs).id


def choose(store: Store, experiment_id: int, entry: str = "ditto", trial: int = 3) -> None:
    with store.studies.changing(experiment_id) as rows:
        rows.insert_choice(entry, 4, trial=trial, value=0.5, error=None, considered=8, tied=2)


def test_a_choice_is_made_once(store: Store) -> None:
    experiment_id = study(store)
    choose(store, experiment_id)
    with pytest.raises(StorageError, match="already stored"):
        choose(store, experiment_id, trial=5)
    (choice,) = store.studies.choices(experiment_id)
    assert (choice.entry, choice.split, choice.trial, choice.value, choice.error) == ("ditto", 4, 3, 0.5, None)


def test_runs_are_queued_once_at_the_positions_of_the_study(store: Store) -> None:
    experiment_id = study(store)
    more = [new_run(seed, position=5 * seed) for seed in range(4)]
    for expected in (2, 0):  # positions 0 and 10 are taken
        with store.studies.changing(experiment_id) as rows:
            assert len(rows.enqueue(more)) == expected
    assert sorted(run.position for run in store.queue.runs()) == [0, 5, 10, 15]


def test_a_position_of_a_deleted_run_is_not_used_again(store: Store) -> None:
    experiment_id = study(store)
    store.trash.put([run.id for run in store.queue.runs()])
    with store.studies.changing(experiment_id) as rows:
        assert rows.runs == [] and rows.enqueue([new_run(position=10)]) == []


def test_nothing_is_stored_if_the_transaction_fails(store: Store) -> None:
    experiment_id = study(store)
    changing = store.studies.changing(experiment_id)
    rows = changing.__enter__()
    rows.insert_choice("ditto", 4, trial=0, value=None, error=None, considered=1, tied=1)
    rows.enqueue([new_run(position=7)])
    assert changing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None) is False
    assert store.studies.choices(experiment_id) == [] and len(store.queue.runs()) == 2


def test_repeated_runs_come_after_all_positions_of_the_study(store: Store) -> None:
    study(store)
    ids = [run.id for run in store.queue.runs()]
    again = store.queue.rerun(ids)
    assert [run.position for run in again] == [FIRST_OF_RERUNS, FIRST_OF_RERUNS + 1]


def test_two_runs_of_an_experiment_cannot_have_one_position(store: Store) -> None:
    with pytest.raises(StorageError, match="already stored"):
        store.experiments.create("x", {}, [new_run(0, position=1), new_run(1, position=1)])


def test_only_experiments_with_tune_are_open_studies(store: Store) -> None:
    first, plain, none = study(store), study(store, tune=None), store.experiments.create("x", {}, [new_run()]).id
    archived, example = study(store), store.experiments.create("e", {"tune": {}}, [new_run()], example=True).id
    store.experiments.archive([archived])
    assert store.studies.open() == [first]
    assert {plain, none, example}.isdisjoint(store.studies.open())


def test_one_experiment_with_a_nul_does_not_hide_the_other_studies(store: Store) -> None:
    first, bad = study(store), study(store)
    with store._database.write() as connection:
        stored = {"config": '{"tune": {}, "note": "a\\u0000b"}', "id": bad}
        connection.execute(sa.text("UPDATE experiments SET config = :config WHERE id = :id"), stored)
    assert store.studies.open() == [first, bad]


def test_studies_are_found_by_their_runs_also_in_the_trash(store: Store) -> None:
    first, second, plain = study(store), study(store), store.experiments.create("x", {}, [new_run()]).id
    ids = store.queue.ids(experiment_ids=[first, plain])
    store.trash.put(store.queue.ids(experiment_ids=[first]))
    assert store.studies.of_runs(ids) == [first] and store.studies.of_runs(range(100_000)) == [first, second]
    assert store.studies.of_runs([]) == []


def test_trials_in_the_trash_are_found(store: Store) -> None:
    places = [{"role": role, "entry": "ditto", "split": 4, "trial": 0} for role in ("trial", "final")]
    runs = [new_run(seed, config={"study": place}) for seed, place in enumerate(places)]
    experiment_id = store.experiments.create("study", {"tune": {}}, [*runs, new_run(2)]).id
    assert store.studies.trashed_trials(experiment_id) == []
    store.trash.put(store.queue.ids())
    assert store.studies.trashed_trials(experiment_id) == places[:1]


def test_choices_go_with_their_experiment(store: Store) -> None:
    experiment_id = study(store)
    choose(store, experiment_id)
    store.experiments.delete([experiment_id])
    assert store.studies.choices(experiment_id) == []
    with pytest.raises(ExperimentNotFound), store.studies.changing(experiment_id):
        pass


def test_imported_choices_keep_their_time_and_do_not_replace_others(store: Store) -> None:
    source, target = study(store), study(store)
    choose(store, source)
    choices = store.studies.choices(source)
    for _ in range(2):
        store.studies.insert(target, choices)
    (found,) = store.studies.choices(target)
    assert (found.experiment_id, found.chosen_at, found.trial) == (target, choices[0].chosen_at, 3)


def test_runs_with_equal_positions_are_migrated(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{first_version(tmp_path)}")
    columns = "experiment_id, position, algorithm, label, seed, hparams, config, digest, status, rounds, round, epoch"
    columns += ", control, created_at, archived"
    copied = f"INSERT INTO runs ({columns}) SELECT {columns} FROM runs WHERE id = 1"
    with store._database.write() as connection:
        for _ in range(2):
            connection.exec_driver_sql(copied)
    store.migrate()
    found = store.queue.runs(newest_first=False)
    assert [run.position for run in found] == [0, FIRST_OF_RERUNS + 2, FIRST_OF_RERUNS + 3]
    store.close()
