"""The status strip of every page, read in one statement."""

from datetime import UTC, datetime, timedelta

import pytest

from storage import Activity, Store
from storage.engines import FRESH_S
from tests.storage.samples import create


def test_an_empty_database_has_no_activity(store: Store) -> None:
    assert store.activity() == Activity({"queued": (), "running": (), "paused": ()}, 0, 0, (), 0)


def test_unfinished_runs_are_listed_by_status(store: Store) -> None:
    ids = create(store, 6)
    first, second = store.queue.claim(), store.queue.claim()
    assert first and second
    store.queue.finish(first.id, first.epoch, "done")
    store.queue.request([ids[3]], "pause")
    store.queue.archive([ids[4]])
    store.trash.put([ids[5]])
    assert store.activity().runs == {"queued": (ids[2], ids[4]), "running": (ids[1],), "paused": (ids[3],)}
    assert store.activity().last_run == ids[5]


def test_analyses_count_until_they_end(store: Store) -> None:
    (run_id,) = create(store, 1)
    for kind in ("landscape", "features"):
        store.analyses.request(run_id, kind, {})
    claimed = store.analyses.claim()
    assert claimed and store.activity().analyses == 2
    store.analyses.finish(claimed.id, claimed.epoch, "failed", error="it broke")
    assert store.activity().analyses == 1


def test_only_engines_with_a_recent_heartbeat_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid, device in ((7, "cpu"), (8, "cuda")):
        store.engines.heartbeat(host="here", pid=pid, device=device, slots=pid - 6, running=0)
    monkeypatch.setattr("storage.engines.now", lambda: datetime.now(UTC) - timedelta(seconds=2 * FRESH_S))
    store.engines.heartbeat(host="here", pid=9, device="silent", slots=3, running=0)
    assert (store.activity().devices, store.activity().slots) == (("cpu", "cuda"), 3)
