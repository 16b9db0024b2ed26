"""The usage of an owner: runs, computing time (which deleting does not reduce) and disk; and the audit log."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from storage import DatabaseLocked, RunRecord, Store, analyses
from storage.audit import insert_audit
from storage.models import Analysis, PastCompute, Run
from storage.shares import DAY
from tests.storage.samples import a_round, new_run

NOW = datetime.now(UTC)


@pytest.fixture
def done(store: Store) -> RunRecord:
    """A run of a that took 100 s for 5 rounds and ended an hour ago."""
    store.experiments.create("x", {}, [new_run()], owner="a")
    run = store.queue.claim()
    assert run is not None
    store.queue.finish(run.id, run.epoch, "done", rounds=[a_round(round) for round in range(5)])
    end = NOW - timedelta(hours=1)
    change(store, run.id, started_at=end - timedelta(seconds=100), finished_at=end)
    return store.queue.get(run.id)


def change(store: Store, run_id: int, **values: object) -> None:
    with store._database.write() as connection:
        connection.execute(sa.update(Run).where(Run.id == run_id).values(**values))


def seconds(store: Store, owner: str = "a") -> float:
    return sum(seconds for _, seconds in store.shares.usage(owner).computed)


def test_runs_are_counted_by_owner(store: Store) -> None:
    store.experiments.create("x", {}, [new_run(seed) for seed in range(4)], owner="a")
    store.experiments.create("y", {}, [new_run(7)], owner="b")
    store.queue.claim()
    second, third, *_ = store.queue.ids(["queued"])
    store.queue.request([second], "pause")
    store.trash.put([third])
    used = store.shares.usage("a")
    assert (used.queued, used.running, store.shares.usage("b").queued) == (2, 1, 1)


def test_the_time_of_a_run_is_that_from_start_to_end(store: Store, done: RunRecord) -> None:
    assert seconds(store) == pytest.approx(100) and seconds(store, "b") == 0


def test_waiting_between_rounds_does_not_count(store: Store, done: RunRecord) -> None:
    change(store, done.id, seconds_per_round=2.0)
    assert seconds(store) == pytest.approx(10)


@pytest.mark.parametrize("pace", [None, 60.0], ids=["without a round", "after a round"])
def test_waiting_from_a_pause_to_a_cancel_does_not_count(store: Store, pace: float | None) -> None:
    store.experiments.create("x", {}, [new_run()], owner="a")
    run = store.queue.claim()
    assert run is not None
    store.queue.heartbeat(run.id, run.epoch, pace)
    store.queue.finish(run.id, run.epoch, "paused")
    start = NOW - timedelta(hours=14)
    change(store, run.id, started_at=start, heartbeat_at=start + timedelta(seconds=20), round=9)
    store.queue.request([run.id], "cancel")
    assert seconds(store) == pytest.approx(20)


def test_time_counts_for_a_day_after_the_end(store: Store, done: RunRecord) -> None:
    change(store, done.id, finished_at=NOW - DAY - timedelta(seconds=1))
    assert seconds(store) == 0


def test_a_run_that_ended_while_a_clock_was_ahead_does_not_count(store: Store, done: RunRecord) -> None:
    year = timedelta(days=365)
    change(store, done.id, started_at=done.started_at + year, finished_at=done.finished_at + year)
    assert seconds(store) == 0
    store.queue.delete([done.id])
    with store._database.write() as connection:
        connection.execute(sa.insert(PastCompute).values(owner="a", ended_at=NOW + year, seconds=100))
    assert seconds(store) == 0


def test_the_clock_of_another_machine_may_be_a_little_ahead(store: Store, done: RunRecord) -> None:
    change(store, done.id, started_at=NOW, finished_at=None, heartbeat_at=NOW + timedelta(seconds=30))
    assert seconds(store) == pytest.approx(30)


def test_a_running_run_counts_until_its_last_heartbeat(store: Store, done: RunRecord) -> None:
    change(store, done.id, finished_at=None, heartbeat_at=done.started_at + timedelta(seconds=30))
    assert seconds(store) == pytest.approx(30)


@pytest.mark.parametrize("way", ["trash", "delete", "experiment"])
def test_deleting_a_run_does_not_give_its_time_back(store: Store, done: RunRecord, way: str) -> None:
    analysis = store.analyses.request(done.id, "landscape", {})
    time_analysis(store, analysis.id, 7)
    assert seconds(store) == pytest.approx(107)
    if way == "trash":
        store.trash.put([done.id])
        store.trash.empty()
    elif way == "delete":
        store.queue.delete([done.id])
    else:
        store.experiments.delete([done.experiment_id])
    assert seconds(store) == pytest.approx(107)


def test_repeating_an_analysis_does_not_give_its_time_back(store: Store, done: RunRecord) -> None:
    analysis = store.analyses.request(done.id, "landscape", {})
    for status in ("done", "failed"):
        time_analysis(store, analysis.id, 7, status)
        store.analyses.recompute(analysis.id)
    assert seconds(store) == pytest.approx(114)
    time_analysis(store, analysis.id, 7, "failed")
    store.analyses.request(done.id, "landscape", {})
    assert seconds(store) == pytest.approx(121)


def test_recomputing_a_running_analysis_counts_it_once(store: Store, done: RunRecord) -> None:
    analysis = store.analyses.request(done.id, "landscape", {})
    time_analysis(store, analysis.id, 7, "running")
    store.analyses.recompute(analysis.id)
    assert seconds(store) == pytest.approx(107, abs=5)


@pytest.mark.parametrize("again", ["recompute", "request"])
def test_two_requests_at_once_to_compute_again_count_the_time_once(
    store: Store, done: RunRecord, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    analysis = store.analyses.request(done.id, "landscape", {})
    time_analysis(store, analysis.id, 7, "failed")
    keep_compute = analyses.keep_compute

    def recompute_meanwhile(*args: Any) -> None:
        monkeypatch.setattr(analyses, "keep_compute", keep_compute)
        keep_compute(*args)
        with closing(Store(store.url, timeout_s=0.05)) as other, pytest.raises(DatabaseLocked):
            other.analyses.recompute(analysis.id)

    monkeypatch.setattr(analyses, "keep_compute", recompute_meanwhile)
    if again == "recompute":
        store.analyses.recompute(analysis.id)
    else:
        store.analyses.request(done.id, "landscape", {})
    assert seconds(store) == pytest.approx(107)


def test_old_time_is_forgotten_and_runs_without_an_owner_leave_none(store: Store, done: RunRecord) -> None:
    store.queue.delete([done.id])
    with store._database.write() as connection:
        connection.execute(sa.update(PastCompute).values(ended_at=NOW - DAY - timedelta(seconds=1)))
    store.experiments.create("y", {}, [new_run()], owner="")
    run = store.queue.claim()
    assert run is not None
    store.queue.finish(run.id, run.epoch, "done")
    store.queue.delete([run.id])
    assert seconds(store) == 0 and count(store, PastCompute) == 1


def test_disk_is_that_of_the_owners_artifacts(store: Store, done: RunRecord) -> None:
    store.artifacts.register(done.id, None, store.artifacts.write_file(done.id, "models", 4, b"x" * 70))
    store.trash.put([done.id])
    assert store.shares.usage("a").artifact_bytes == 70 and store.shares.usage("b").artifact_bytes == 0


def test_owners_of_runs_and_experiments_are_found_also_in_the_trash(store: Store, done: RunRecord) -> None:
    other = store.experiments.create("y", {}, [new_run()])
    store.trash.put([done.id])
    assert store.experiments.owners(run_ids=[done.id]) == {"a"}
    assert store.experiments.owners(run_ids=[done.id], experiment_ids=[other.id, 2**70]) == {"a", ""}
    assert store.experiments.get(done.experiment_id).owner == "a"


def test_the_audit_log_is_newest_first_and_outlives_its_runs(store: Store, done: RunRecord) -> None:
    with store._database.write() as connection:
        insert_audit(connection, "a", "Cancel", f"run {done.id}")
        insert_audit(connection, "b", "Delete", f"run {done.id}")
    store.queue.delete([done.id])
    found = store.audit.list()
    assert [(entry.person, entry.action, entry.subject) for entry in found] == [
        ("b", "Delete", f"run {done.id}"),
        ("a", "Cancel", f"run {done.id}"),
    ]
    assert len(store.audit.list(1)) == 1


def time_analysis(store: Store, analysis_id: int, taken: float, status: str = "done") -> None:
    start = datetime.now(UTC) - timedelta(seconds=taken)
    end = None if status == "running" else start + timedelta(seconds=taken)
    with store._database.write() as connection:
        timed = sa.update(Analysis).where(Analysis.id == analysis_id)
        connection.execute(timed.values(status=status, started_at=start, finished_at=end))


def count(store: Store, table: type) -> int:
    with store._database.read() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
