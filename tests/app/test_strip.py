"""The status strip of every page: counts, device, problems, and runs that ended since the last request."""

from itertools import count

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import endpoints
from app.data import ended, overview
from app.data.overview import LOW_DISK_BYTES
from app.data.overview import overview as strip
from app.data.pulse import GONE_AFTER_S, Pulse
from app.server import routes
from app.wording import spans
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Status, Store
from storage.holders import LockHolder
from tests.app.samples import DIGITS


@pytest.fixture
def store(empty_store: Store) -> Store:
    """Runs 1 to 8, queued in experiment 1."""
    empty_store.experiments.create("queued", DIGITS, [new_run(run) for run in parse_experiment(DIGITS).runs()])
    return empty_store


def end(store: Store, *statuses: Status) -> None:
    """Claims the next runs of the queue and ends them with these statuses."""
    for status in statuses:
        run = store.queue.claim()
        assert run is not None
        store.queue.finish(run.id, run.epoch, status)


def test_it_counts_runs_and_names_the_device(store: Store) -> None:
    lock = store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        assert strip(store)["text"] == "0 running · 8 queued · worker starting"
        store.engines.heartbeat(host="here", pid=1, device="cpu", slots=2, running=0)
        store.queue.request([8], "pause")
        now = strip(store)
    assert now["text"] == "0 running · 7 queued · 1 paused · cpu, 2 slots"
    assert now["busy"] and now["engine"] and now["alerts"] == []


def test_several_machines_are_counted_and_one_that_gets_no_work_is_an_alert(store: Store) -> None:
    lock = store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        store.engines.heartbeat(host="lab1", pid=1, device="cpu", slots=2, running=0, name="one")
        store.engines.heartbeat(host="lab2", pid=1, device="cpu", slots=0, running=0, name="two", problem="old torch")
        now = strip(store)
    assert now["text"] == "0 running · 8 queued · 2 machines, 2 slots"
    assert now["alerts"] == ["lab2 gets no work: old torch."]


@pytest.mark.parametrize("is_locked", [True, False])
def test_an_outage_of_the_cluster_is_an_alert_instead_of_a_missing_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_locked: bool
) -> None:
    outage = "Can't reach the Ray cluster at head:6379: connection refused"
    store.engines.heartbeat(host="lab1", pid=1, device="", slots=0, running=0, problem=outage)
    monkeypatch.setattr(overview, "pulse_of", lambda url: Pulse(count(step=GONE_AFTER_S).__next__))
    lock = store.try_dispatcher_lock() if is_locked else None
    now = strip(store)
    assert now["text"] == "0 running · 8 queued · no cluster"
    assert now["alerts"] == [f"{outage}."]
    store.engines.heartbeat(host="lab2", pid=1, device="cpu", slots=2, running=0)
    assert f"{outage}." not in strip(store)["alerts"]
    if lock is not None:
        lock.release()


def test_a_worker_that_blocks_writers_is_reported_with_its_restart(store: Store) -> None:
    lock = store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        store.engines.heartbeat(host="here", pid=1, device="cpu", slots=2, running=0)
        lock.set_notice("A worker is not responding; it will be restarted in 7 s")
        now = strip(store)
        assert now["text"] == "0 running · 8 queued · worker waiting"
        assert now["alerts"][0] == "A worker is not responding; it will be restarted in 7 s."
        lock.set_notice("")
        assert strip(store)["alerts"] == []


def test_a_process_that_blocks_writes_is_named_with_advice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = LockHolder(12, "python -m engine delete 7", is_stopped=True, is_abandoned=False)
    monkeypatch.setattr(Store, "writer", lambda store: backup)
    lock = store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        (alert,) = strip(store)["alerts"]
        assert alert.startswith("The worker cannot store anything: the database is locked by process 12 (python -m ")
        assert "kill -CONT 12 resumes it" in alert
        assert "worker waiting" in strip(store)["text"]
        store.engines.heartbeat(host="here", pid=1, device="cpu", slots=2, running=0)  # only for a moment
        assert strip(store)["alerts"] == []


def test_it_estimates_the_time_of_the_queue(store: Store) -> None:
    lock, run = store.try_dispatcher_lock(), store.queue.claim()
    assert lock is not None and run is not None
    store.engines.heartbeat(host="here", pid=1, device="cpu", slots=1, running=1)
    store.queue.heartbeat(run.id, run.epoch, seconds_per_round=2.0)
    with lock:
        assert strip(store)["text"] == "1 running · 7 queued · 1 min left · cpu, 1 slot"  # 8 runs, 5 rounds


def test_it_counts_analyses(filled_store: Store) -> None:
    filled_store.analyses.request(1, "landscape", {})
    now = strip(filled_store)
    assert "0 queued · 1 analysis · " in now["text"]
    assert now["busy"]


def test_a_missing_engine_is_an_alert(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    watching = Pulse(lambda: seconds[0])
    monkeypatch.setattr(overview, "pulse_of", lambda url: watching)
    store.engines.heartbeat(host="killed", pid=1, device="cpu", slots=2, running=0)
    now = strip(store)
    assert "no worker" in now["text"] and now["alerts"] == []
    seconds[0] += GONE_AFTER_S
    (alert,) = strip(store)["alerts"]
    assert "No worker is running" in alert and "8 runs wait" in alert and "python -m engine worker" in alert


def test_a_nearly_full_disk_is_reported(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_slow_facts", lambda store, tick: (None, LOW_DISK_BYTES, []))
    assert not [alert for alert in strip(store)["alerts"] if "disk" in alert]
    monkeypatch.setattr(overview, "_slow_facts", lambda store, tick: (None, 4.2e8, []))
    assert "nearly full: 420 MB left" in strip(store)["alerts"][-1]


def test_unfinished_runs_are_encoded_briefly() -> None:
    assert spans([12, 3, 4, 5, 7, 3]) == "3-5,7,12"
    assert spans([]) == ""
    assert ended.parse_spans("3-5,7,12") == [3, 4, 5, 7, 12]


@pytest.mark.parametrize("text", ["x", "-3", "3-", "1-2-3", "9" * 50, "5-4", ","])
def test_invalid_ids_are_ignored(text: str) -> None:
    assert ended.parse_spans(text) == []
    assert ended.parse_spans(f"1,{text},2") == [1, 2]


def test_a_huge_range_of_ids_is_ignored() -> None:
    assert len(ended.parse_spans("1-1000000,2000000-3000000")) == ended.MAX_RUNS
    assert len(ended.parse_spans("1-1500,2000-3000")) == ended.MAX_RUNS
    assert ended.parse_spans("1-1500," * 10_000) == list(range(1, 1501))


def test_an_ended_run_is_announced_once(store: Store) -> None:
    before = strip(store)["active"]
    assert before == "1-8,9-"
    end(store, "done")
    now = strip(store, before)
    assert now["ended"]["text"] == "FedAvg, seed 0 is done."
    assert now["ended"]["links"] == [
        {"label": "Live", "href": "/live?experiment=1"},
        {"label": "Compare", "href": "/compare?experiment=1"},
    ]
    assert strip(store, now["active"])["ended"] is None


def test_many_runs_are_announced_together_and_cancelled_ones_not(store: Store) -> None:
    before = strip(store)["active"]
    end(store, "done", "failed", "done", "diverged")
    store.queue.request([8], "cancel")
    found = strip(store, before)["ended"]
    assert found["text"] == "4 runs have ended: 2 done, 1 failed, 1 diverged."
    assert found["ids"] == "1-4"


def test_a_run_created_and_ended_between_requests_is_announced(empty_store: Store) -> None:
    before = strip(empty_store)["active"]
    assert before == ",1-"
    queued = [new_run(run) for run in parse_experiment(DIGITS).runs()[:2]]
    empty_store.experiments.create("short", DIGITS, queued)
    end(empty_store, "done")
    found = strip(empty_store, before)
    assert found["ended"]["text"] == "FedAvg, seed 0 is done."
    assert strip(empty_store, before, seen="1")["ended"] is None
    assert strip(empty_store, found["active"])["ended"] is None


def test_imported_runs_are_not_announced(read_store: Store) -> None:
    assert strip(read_store, "1-")["ended"] is None


def test_the_earliest_request_counts() -> None:
    assert ended.first_new("1-8,12-,9-,10") == 9
    assert ended.first_new("1-8") is None
    assert ended.first_new(f"-,x-,{'9' * 50}-,1-2-") is None


def test_the_route_announces_watched_runs_that_are_not_in_view(store: Store) -> None:
    client = TestClient(Starlette(routes=routes.build(store)))
    end(store, "done", "done")
    asked_for = client.get(endpoints.OVERVIEW, params={"watched": "1-8", "seen": "1"})
    assert asked_for.json()["ended"]["text"] == "FedAvg, seed 1 is done."
    assert client.get(endpoints.OVERVIEW, params={"watched": "1-2", "seen": "1,2"}).json()["ended"] is None
    assert asked_for.headers["cache-control"] == "no-store"


def test_runs_that_ended_before_are_not_announced(read_store: Store) -> None:
    assert ended.parse_spans(strip(read_store)["active"]) == []
    assert strip(read_store)["ended"] is None


def test_a_run_without_results_is_not_offered_for_comparison(store: Store) -> None:
    end(store, "failed")
    found = ended.toast(store.queue.runs(run_ids=[1]))
    assert found["text"] == "FedAvg, seed 0 failed."
    assert [link["label"] for link in found["links"]] == ["Live"]
