"""Models over the size limit are deleted, oldest first and logged; nothing else is deleted."""

from collections.abc import Callable

import pytest

from storage import RunRecord, Status, Store
from tests.storage.samples import new_run

Make = Callable[..., RunRecord]


@pytest.fixture
def make(store: Store) -> Make:
    """Makes runs with 10 bytes of models and 3 of an analysis."""

    def make(status: Status = "done", example: bool = False) -> RunRecord:
        experiment = store.experiments.create("x", {}, [new_run()], example)
        (request,) = store.queue.runs(experiment_ids=[experiment.id])
        run = store.queue.claim([request.id])
        assert run is not None
        for kind, size in {"model-last": 6, "model-best": 4, "analysis-landscape": 3}.items():
            store.artifacts.register(run.id, None, store.artifacts.write_file(run.id, kind, 0, bytes(size)))
        if status != "running":
            store.queue.finish(run.id, run.epoch, status)
        return store.queue.get(run.id)

    return make


def with_models(store: Store) -> list[int]:
    runs = store.queue.runs(newest_first=False, include_archived=True)
    return [run.id for run in runs if store.artifacts.latest(run.id, "model-last")]


def test_the_oldest_are_deleted_until_the_rest_fits(store: Store, make: Make) -> None:
    runs = [make() for _ in range(4)]
    assert store.artifacts.trim_models(40, "") == 0 and len(with_models(store)) == 4
    assert store.artifacts.trim_models(25, "") == 20
    assert with_models(store) == [run.id for run in runs[2:]]
    assert store.disk_use().models_bytes == 20 and store.disk_use().analyses_bytes == 12


def test_examples_and_unfinished_runs_keep_their_models(store: Store, make: Make) -> None:
    protected = [make(example=True).id, make("running").id]
    others = [make("failed"), make("cancelled"), make("diverged")]
    assert store.artifacts.trim_models(0, "") == 10 * len(others)
    assert with_models(store) == protected


def test_models_needed_by_a_queued_analysis_stay(store: Store, make: Make) -> None:
    first, second = make(), make()
    store.analyses.request(first.id, "features", {})
    assert store.artifacts.trim_models(10, "") == 10 and with_models(store) == [first.id]
    assert store.artifacts.latest(second.id, "analysis-landscape") is not None


def test_the_order_of_deletion_does_not_depend_on_the_clock(
    store: Store, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(), make()
    with store._database.write() as connection:  # as if the clock had been set back
        connection.exec_driver_sql(f"UPDATE runs SET finished_at = '2001-01-01 00:00:00' WHERE id = {second.id}")
    store.artifacts.trim_models(10, "")
    assert with_models(store) == [second.id] and first.id < second.id


def test_the_log_says_what_was_deleted_and_why(store: Store, make: Make) -> None:
    first, second = make(), make()
    store.artifacts.trim_models(10, "for all had to fit")
    store.artifacts.drop_models([second.id])
    (of_first,), (of_second,) = (store.events.list(run.id) for run in (first, second))
    assert (of_first.kind, of_first.level) == ("models", "info")
    assert of_first.message == ("its models (0.0 MB) were deleted, for all had to fit; rerun it for new analyses")
    assert "on request" in of_second.message
    store.artifacts.drop_models([second.id])
    assert len(store.events.list(second.id)) == 1  # nothing to log
