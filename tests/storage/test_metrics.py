"""Rounds are read as they were written."""

import numpy as np
import pytest

from storage import RoundRecord, RunRecord, StorageError, Store
from tests.storage.samples import a_round, new_run


def test_a_round_is_read_as_it_was_written(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(0, clusters=[1, 0, 1, 0]), a_round(1)])
    written, (read, _) = a_round(0, clusters=[1, 0, 1, 0]), store.metrics.rounds(run.id)
    assert (read.round, read.evaluated, list(read.scalars)) == (0, True, ["personalized.mean", "seconds"])
    assert read.scalars["seconds"] == 0.0
    assert np.isnan(read.scalars["personalized.mean"])
    np.testing.assert_array_equal(read.cohort, [0, 2])
    np.testing.assert_array_equal(read.clusters, [1, 0, 1, 0])
    assert (read.cohort.dtype, read.clusters.dtype) == (np.int32, np.int16)
    for name, array in written.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array, strict=True)


def test_the_run_stores_its_last_round(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(0), a_round(1)], summary={"mean": np.nan})
    store.metrics.append(run.id, run.epoch, [])
    stored = store.queue.get(run.id)
    assert (stored.round, stored.summary) == (1, {"mean": None})


def test_a_round_is_stored_once(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(0)])
    with pytest.raises(StorageError, match="already stored"):
        store.metrics.append(run.id, run.epoch, [a_round(0)])


def test_a_failed_batch_stores_nothing(store: Store, run: RunRecord) -> None:
    wrong = RoundRecord(1, np.zeros(0, dtype=np.int32), arrays={"names": np.array(["a"])})
    with pytest.raises(TypeError, match="give numbers"):
        store.metrics.append(run.id, run.epoch, [a_round(0), wrong])
    assert store.metrics.rounds(run.id) == []
    assert store.queue.get(run.id).round == -1


def test_a_checkpoint_is_registered_with_its_rounds(store: Store, run: RunRecord) -> None:
    file = store.artifacts.write_file(run.id, "checkpoint", 1, b"state")
    store.metrics.append(run.id, run.epoch, [a_round(0), a_round(1)], checkpoint=file)
    latest = store.artifacts.latest(run.id, "checkpoint")
    assert latest is not None
    assert (latest.round, store.artifacts.read(latest)) == (1, b"state")


def test_rounds_are_read_in_pages(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(r, clusters=[0, 0, 1, 1]) for r in range(5)])
    page = store.metrics.rounds(run.id, after=1, limit=2)
    assert [r.round for r in page] == store.metrics.stored_rounds(run.id, after=1, limit=2) == [2, 3]
    assert page[0].arrays["diagnostics.cost"].shape == (2, 2)
    assert page[0].scalars["seconds"] == 1.0
    np.testing.assert_array_equal(page[0].clusters, [0, 0, 1, 1])


def test_rewinding_deletes_later_rounds(store: Store, run: RunRecord) -> None:
    for r in range(4):
        file = store.artifacts.write_file(run.id, "checkpoint", r, b"state")
        store.metrics.append(run.id, run.epoch, [a_round(r, clusters=[r] * 4)], summary={"of": r}, checkpoint=file)
    store.metrics.rewind(run.id, run.epoch, after_round=1)
    assert [r.round for r in store.metrics.rounds(run.id)] == [0, 1]
    assert [a.round for a in store.artifacts.list(run.id)] == [1, 0]
    assert len(list(store.artifacts.folder.glob("*/*"))) == 2
    assert (store.queue.get(run.id).round, store.queue.get(run.id).summary) == (1, None)
    store.metrics.append(run.id, run.epoch, [a_round(2)])
    store.metrics.rewind(run.id, run.epoch, after_round=-1)
    assert store.metrics.rounds(run.id) == []


def test_curves_of_several_runs_are_read_in_one_call(store: Store, run: RunRecord) -> None:
    (other,) = store.queue.rerun([run.id])
    claimed = store.queue.claim()
    assert claimed is not None
    store.metrics.append(run.id, run.epoch, [a_round(r) for r in range(4)])
    store.metrics.append(other.id, claimed.epoch, [a_round(0)])
    unknown = other.id + 1
    curves = store.metrics.scalars([run.id, other.id, unknown], ["seconds", "unknown"], after={run.id: 1})
    assert {run_id: list(names) for run_id, names in curves.items()} == {
        run.id: ["seconds"],
        other.id: ["seconds"],
        unknown: [],
    }
    rounds, values = curves[run.id]["seconds"]
    np.testing.assert_array_equal(rounds, [2, 3])
    np.testing.assert_array_equal(values, [1.0, 1.5])


def test_a_missing_number_is_nan_in_a_curve(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(0)])
    _, values = store.metrics.scalars([run.id], ["personalized.mean"])[run.id]["personalized.mean"]
    assert np.isnan(values).all()
    assert values.dtype == np.float64


def test_without_runs_there_are_no_curves(store: Store) -> None:
    assert store.metrics.scalars([], ["seconds"]) == {}


def test_a_heat_map_is_one_array(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(r) for r in range(3)])
    rounds, values = store.metrics.array(run.id, "personalized.accuracy")
    np.testing.assert_array_equal(rounds, [0, 1, 2])
    np.testing.assert_array_equal(values, np.stack([a_round(r).arrays["personalized.accuracy"] for r in range(3)]))
    assert store.metrics.array(run.id, "diagnostics.cost")[1].shape == (3, 2, 2)
    assert store.metrics.array(run.id, "unknown")[0].size == 0


def test_an_array_is_read_at_the_last_round_by_default(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(r) for r in range(3)])
    np.testing.assert_array_equal(store.metrics.array_at(run.id, "diagnostics.cost"), [[2, 1], [2, 3]])
    np.testing.assert_array_equal(store.metrics.array_at(run.id, "diagnostics.cost", 0), [[0, 1], [2, 3]])
    assert store.metrics.array_at(run.id, "diagnostics.cost", 9) is None


def test_an_array_of_many_runs_is_read_in_one_call(store: Store) -> None:
    store.experiments.create("three runs", {}, [new_run(seed) for seed in range(3)])
    first, second, third = (store.queue.claim() for _ in range(3))
    for run, rounds in ((first, 3), (second, 2)):
        store.metrics.append(run.id, run.epoch, [a_round(r) for r in range(rounds)])
    found = store.metrics.arrays_at([first.id, second.id, third.id], "personalized.accuracy", {first.id: 0})
    assert {run_id: values[0] for run_id, values in found.items()} == {first.id: 0.0, second.id: 1.0}
    assert store.metrics.arrays_at([first.id], "unknown") == store.metrics.arrays_at([], "diagnostics.cost") == {}


def test_single_rounds_of_curves_can_be_read(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(r) for r in range(5)])
    rounds, values = store.metrics.array(run.id, "personalized.accuracy", [1, 4, 9])
    np.testing.assert_array_equal(rounds, [1, 4])
    np.testing.assert_array_equal(values, np.stack([a_round(r).arrays["personalized.accuracy"] for r in (1, 4)]))
    rounds, values = store.metrics.scalars([run.id], ["seconds"], rounds=[3])[run.id]["seconds"]
    assert (rounds.tolist(), values.tolist()) == ([3], [a_round(3).scalars["seconds"]])
    assert store.metrics.array(run.id, "personalized.accuracy", [])[0].size == 0


def test_costs_are_summed_between_rounds(store: Store, run: RunRecord) -> None:
    costs = [RoundRecord(r, np.array([0]), {"seconds": 2.0**r, "other": 1.0}) for r in range(8)]
    store.metrics.append(run.id, run.epoch, costs)
    sums = store.metrics.sums(run.id, ["seconds"], after=0, until=7, every=3)
    assert sums == {3: {"seconds": 2.0 + 4 + 8}, 6: {"seconds": 16.0 + 32 + 64}, 9: {"seconds": 128.0}}
    assert store.metrics.sums(run.id, ["seconds"], after=-1, until=0, every=3) == {0: {"seconds": 1.0}}


def test_totals_sum_up_to_a_round_of_each_run(store: Store) -> None:
    store.experiments.create("two runs", {}, [new_run(seed) for seed in range(2)])
    first, second = (store.queue.claim() for _ in range(2))
    for run in (first, second):
        store.metrics.append(run.id, run.epoch, [a_round(r) for r in range(4)])
    sums = store.metrics.totals({first.id: 3, second.id: 1}, ["seconds", "personalized.mean", "unknown"])
    assert sums[first.id]["seconds"] == 0.5 * (1 + 2 + 3) and sums[second.id]["seconds"] == 0.5
    assert np.isnan(sums[first.id]["personalized.mean"])


def test_runs_with_clusters_are_listed(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(0)])
    assert store.metrics.having_clusters([run.id]) == set()
    store.metrics.append(run.id, run.epoch, [a_round(1, [0, 1, 0, 1])])
    assert store.metrics.having_clusters([run.id, run.id + 1]) == {run.id}


def test_an_array_that_changes_shape_is_read_round_by_round(store: Store, run: RunRecord) -> None:
    rounds = [RoundRecord(r, np.zeros(0, np.int32), arrays={"centres": np.zeros(r + 1)}) for r in range(2)]
    store.metrics.append(run.id, run.epoch, rounds)
    with pytest.raises(StorageError, match="read single rounds"):
        store.metrics.array(run.id, "centres")
    assert store.metrics.rounds(run.id)[1].arrays["centres"].shape == (2,)


def test_clusters_are_stored_when_they_change_and_read_for_every_round(store: Store, run: RunRecord) -> None:
    labels = [None, [0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1], [0, 1, 1, 1]]
    store.metrics.append(run.id, run.epoch, [a_round(r, c) for r, c in enumerate(labels[:3])])
    store.metrics.append(run.id, run.epoch, [a_round(r, c) for r, c in enumerate(labels) if r > 2])
    rounds, read = store.metrics.clusters(run.id)
    np.testing.assert_array_equal(rounds, [1, 2, 3, 4])
    np.testing.assert_array_equal(read, labels[1:])
    assert store.metrics.rounds(run.id)[0].clusters is None
    with store._database.read() as connection:
        stored = connection.exec_driver_sql("SELECT round FROM cluster_assignments ORDER BY round").scalars().all()
    assert stored == [1, 3]


def test_clusters_can_be_removed(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(0, [0, 1, 0, 1]), a_round(1, None), a_round(2, [0, 1, 0, 1])])
    np.testing.assert_array_equal(store.metrics.clusters(run.id)[0], [0, 2])


def test_a_run_without_clusters_has_none(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [a_round(0)])
    assert store.metrics.clusters(run.id)[1].size == 0


def test_numbers_that_are_not_finite_are_null_in_a_summary(store: Store, run: RunRecord) -> None:
    store.metrics.append(run.id, run.epoch, [], summary={"losses": (np.inf, -np.inf, np.nan, 1.0)})
    assert store.queue.get(run.id).summary == {"losses": [None, None, None, 1.0]}
