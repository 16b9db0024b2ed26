"""Workers that are alive but make no progress: how they are detected, and what happens to their work."""

from contextlib import closing

import pytest
import sqlalchemy as sa

from engine.core.errors import InvalidConfig
from engine.worker import analysis_session, retry
from engine.worker.analysis_session import ProgressReporter
from engine.worker.heartbeat import HEARTBEAT, Heartbeat, HeartbeatCounts
from engine.worker.local_executor import TIMEOUT_S
from engine.worker.recorder import WRITE_S, Recorder
from engine.worker.watchdog import MAX_CHECK_S, MAX_WRITE_S, Watchdog
from engine.worker.work_queue import MAX_DEATHS
from storage import DatabaseLocked, Store
from storage.postgres import KEEPALIVES, UNREACHABLE_MS
from storage.sqlite import driver
from tests.worker.samples import claim, claim_analysis, compute, queue

IDLE, WRITING = HeartbeatCounts(7, 2), HeartbeatCounts(7, 3)


@pytest.fixture(autouse=True)
def hung_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_HUNG_S", "5")


def checks(watchdog: Watchdog[str], *counts: HeartbeatCounts, seconds: float = 1.0) -> list[str]:
    """The result of each check of one worker."""
    return [watchdog.hung({"a": found}, seconds).get("a", "") for found in counts]


def test_a_worker_hangs_if_its_heartbeats_stop_changing():
    watchdog: Watchdog[str] = Watchdog()
    found = [watchdog.hung({"a": IDLE, "b": HeartbeatCounts(second, 0)}, 1.0) for second in range(7)]
    assert [list(hung) for hung in found] == [[], [], [], [], [], ["a"], ["a"]]
    assert "no heartbeat for 5 s" in found[5]["a"] and "FEDSCAPE_HUNG_S" in found[5]["a"]


def test_a_new_heartbeat_restarts_the_count():
    assert not any(checks(Watchdog(), *(HeartbeatCounts(beat, 0) for beat in (0, 0, 0, 0, 1, 1, 1, 1, 1))))


def test_time_without_checks_hardly_counts():
    assert not any(checks(Watchdog(), *[IDLE] * 4, seconds=10_000.0))  # as after a night with the laptop closed
    assert MAX_CHECK_S <= 5 / 4


def test_a_write_to_an_unreachable_server_fails_before_its_worker_counts_as_hung():
    keepalives_s = KEEPALIVES["keepalives_idle"] + KEEPALIVES["keepalives_interval"] * KEEPALIVES["keepalives_count"]
    assert keepalives_s == UNREACHABLE_MS / 1000 == 20
    unanswered_s, connecting_s, locked_s = 20, TIMEOUT_S, TIMEOUT_S
    assert unanswered_s + connecting_s + locked_s <= MAX_WRITE_S - 20


def test_ended_workers_are_forgotten():
    watchdog: Watchdog[str] = Watchdog()
    assert not any(checks(watchdog, *[IDLE] * 5))
    watchdog.hung({}, 1.0)
    assert not any(checks(watchdog, IDLE))


def test_the_default_limit_is_a_quarter_of_an_hour(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_HUNG_S")
    assert Watchdog().hung_s == 900


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("FEDSCAPE_HUNG_S", "never")
    with pytest.raises(InvalidConfig, match="FEDSCAPE_HUNG_S: 'never', must be a whole number"):
        Watchdog()


def test_a_write_may_take_a_minute_and_a_step_longer(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_HUNG_S")
    *before, last = checks(Watchdog(), *[WRITING] * 61)
    assert not any(before) and last == (
        "the worker did not finish a write to the database within 60 s and was killed; check the disk or the database "
        "server"
    )
    assert not any(checks(Watchdog(), *[IDLE] * 899))


def test_consecutive_writes_are_not_one_long_write(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_HUNG_S")
    assert not any(checks(Watchdog(), *(HeartbeatCounts(7, 1 + 2 * (second // 50)) for second in range(200))))


def test_restarting_a_worker_that_blocks_writers_is_reported():
    watchdog: Watchdog[str] = Watchdog()
    checks(watchdog, *[WRITING] * 3)
    assert watchdog.notice == ""
    checks(watchdog, WRITING)
    assert watchdog.notice == "A worker is not responding; it will be restarted in 2 s"
    checks(watchdog, HeartbeatCounts(7, 4))
    assert watchdog.notice == ""


def test_a_silent_worker_is_not_reported_before_it_is_killed():
    watchdog: Watchdog[str] = Watchdog()
    checks(watchdog, *[IDLE] * 5)
    assert watchdog.notice == ""


# Sources of heartbeats; the database is not among them.


def test_beats_and_writes_count_even_if_a_write_fails():
    heartbeat = Heartbeat()
    heartbeat.beat()
    with heartbeat.writing():
        assert heartbeat.counts == HeartbeatCounts(1, 1) and heartbeat.counts.is_writing
    with pytest.raises(KeyError), heartbeat.writing():
        raise KeyError
    assert heartbeat.counts == HeartbeatCounts(1, 4) and not heartbeat.counts.is_writing


def test_a_store_marks_writes_and_waits_for_the_lock(store):
    seen: list[HeartbeatCounts] = []
    heartbeat = Heartbeat()
    own = Store(store.url, timeout_s=0.01, writing=heartbeat.writing)
    with closing(driver().connect(sa.make_url(store.url).database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseLocked):
            own.queue.claim()
    assert heartbeat.counts == HeartbeatCounts(0, 2)
    sa.event.listen(own._database.engine, "commit", lambda connection: seen.append(heartbeat.counts))
    queue(own)
    assert seen == [HeartbeatCounts(0, 3)] and heartbeat.counts == HeartbeatCounts(0, 4)
    own.queue.counts()
    assert heartbeat.counts == HeartbeatCounts(0, 4)
    own.close()


def test_every_step_is_a_heartbeat_even_if_nothing_can_be_stored(store, clock, monkeypatch):
    queue(store)
    ticket = claim(store)
    recorder = Recorder(store, ticket.run_id, ticket.epoch, clock)

    def locked(*_: object, **__: object) -> None:
        raise DatabaseLocked("locked")

    monkeypatch.setattr(store.queue, "heartbeat", locked)
    for _ in range(10):
        clock.now += WRITE_S
        before = HEARTBEAT.counts.beats
        recorder.tick()
        assert HEARTBEAT.counts.beats > before


def test_waiting_for_the_database_sends_heartbeats(monkeypatch):
    monkeypatch.setattr(retry.time, "sleep", lambda seconds: None)
    beats: list[int] = []

    def ask() -> str:
        beats.append(HEARTBEAT.counts.beats)
        if len(beats) < 5:
            raise DatabaseLocked("locked")
        return "stored"

    assert retry.until_available(ask) == "stored"
    assert beats == sorted(set(beats))


def test_only_progress_is_a_heartbeat_of_an_analysis(store, clock):
    run = compute(store)
    store.analyses.request(run.id, "features", {})
    watch = ProgressReporter(store, claim_analysis(store), clock)
    for share, is_a_beat in ((0.1, True), (0.1, False), (0.05, False), (float("nan"), False), (0.2, True)):
        clock.now += analysis_session.REPORT_S
        before = HEARTBEAT.counts.beats
        watch(share)
        assert (HEARTBEAT.counts.beats > before) == is_a_beat


# What happens to its work.


def verdict() -> str:
    return checks(Watchdog(), *[IDLE] * 6)[-1]


def test_a_run_whose_worker_hangs_is_resumed(store, dispatcher, executor):
    (run_id,) = queue(store)
    dispatcher.step()
    executor.end(verdict())
    dispatcher.step()
    assert [(ticket.run_id, ticket.epoch) for ticket in executor.tickets] == [(run_id, 2)]
    (event,) = store.events.list(run_id)
    assert event.kind == "worker-died" and "no heartbeat for 5 s" in event.message


def test_a_run_that_hangs_repeatedly_fails_with_advice(store, dispatcher, executor):
    (run_id,) = queue(store)
    for _ in range(MAX_DEATHS):
        dispatcher.step()
        executor.end(verdict())
    dispatcher.step()
    run = store.queue.get(run_id)
    assert run.status == "failed"
    assert "given up after 3 attempts" in run.error and "increase FEDSCAPE_HUNG_S, then retry" in run.error
    assert dispatcher.is_idle


def test_a_worker_is_killed_even_if_the_database_is_locked(store, dispatcher, executor, clock, monkeypatch):
    (run_id,) = queue(store)
    dispatcher.step()
    store.queue.request([run_id], "cancel")

    def locked(*_: object, **__: object) -> None:
        raise DatabaseLocked("locked")

    with monkeypatch.context() as patch:
        patch.setattr(store.engines, "heartbeat", locked)
        for clock.now in (10.0, 20.0):
            with pytest.raises(DatabaseLocked):
                dispatcher.step()
    assert executor.tickets == []
    dispatcher.step()
    assert store.queue.get(run_id).status == "cancelled"


def test_notices_of_the_executor_are_readable_by_other_processes(store, dispatcher, executor):
    other = Store(store.url)
    executor.on_notice("A worker is not responding; it will be restarted in 12 s")
    assert other.dispatcher_notice() == "A worker is not responding; it will be restarted in 12 s"
    executor.on_notice("A worker is not responding; it will be restarted in 9 s")
    assert other.dispatcher_notice() == "A worker is not responding; it will be restarted in 9 s"
    executor.on_notice("")
    assert other.dispatcher_notice() == ""
    executor.on_notice("what a killed one has left")
    dispatcher.close()
    with store.try_dispatcher_lock():
        assert other.dispatcher_notice() == ""
    other.close()
