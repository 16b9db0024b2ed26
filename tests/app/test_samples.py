"""The databases that the other app tests use."""

from storage import Store


def test_the_filled_store_has_finished_runs_with_rounds_clusters_and_partition(read_store: Store) -> None:
    runs = read_store.queue.runs(newest_first=False)
    assert [run.id for run in runs] == list(range(1, 9))
    assert {run.status for run in runs} == {"done"}
    assert read_store.metrics.array(1, "personalized.accuracy")[1].shape == (6, 10)
    assert read_store.metrics.clusters(7)[1].shape == (5, 10)
    assert runs[0].partition is not None and len(runs[0].partition["train_sizes"]) == 10


def test_the_empty_store_is_ready_and_empty(empty_store: Store) -> None:
    empty_store.check_schema()
    assert empty_store.queue.runs() == []
