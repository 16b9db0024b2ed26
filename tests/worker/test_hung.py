"""Workers that live but no longer get on: which they are, and what becomes of their work."""

from contextlib import closing

import pytest
import sqlalchemy as sa

from engine.core.errors import InvalidConfig
from engine.worker import analysis_session, retry
from engine.worker.analysis_session import ProgressReporter
from engine.worker.heartbeat import HEARTBEAT, Heartbeat, HeartbeatCounts
from engine.worker.recorder import WRITE_S, Recorder
from engine.worker.watchdog import MAX_CHECK_S, Watchdog
from engine.worker.work_queue import MAX_DEATHS
from storage import DatabaseLocked, Store
from storage.sqlite import driver
from tests.worker.samples import claim, claim_analysis, compute, queue

IDLE, WRITING = HeartbeatCounts(7, 2), HeartbeatCounts(7, 3)


@pytest.fixture(autouse=True)
def hung_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_HUNG_S", "5")


def looks(watchdog: Watchdog[str], *signs: HeartbeatCounts, seconds: float = 1.0) -> list[str]:
    """What each look says of one worker."""
    return [watchdog.hung({"a": found}, seconds).get("a", "") for found in signs]


def test_a_sign_that_stays_the_same_for_too_long_tells_who_hangs():
    watchdog: Watchdog[str] = Watchdog()
    found = [watchdog.hung({"a": IDLE, "b": HeartbeatCounts(second, 0)}, 1.0) for second in range(7)]
    assert [list(hung) for hung in found] == [[], [], [], [], [], ["a"], ["a"]]
    assert "no heartbeat for 5 s" in found[5]["a"] and "FEDSCAPE_HUNG_S" in found[5]["a"]


def test_a_sign_that_changes_begins_the_count_anew():
    assert not any(looks(Watchdog(), *(HeartbeatCounts(beat, 0) for beat in (0, 0, 0, 0, 1, 1, 1, 1, 1))))


def test_time_in_which_nobody_looked_hardly_counts():
    assert not any(looks(Watchdog(), *[IDLE] * 4, seconds=10_000.0))  # as after a night with the lid closed
    assert MAX_CHECK_S <= 5 / 4


def test_what_has_ended_in_between_is_forgotten():
    watchdog: Watchdog[str] = Watchdog()
    assert not any(looks(watchdog, *[IDLE] * 5))
    watchdog.hung({}, 1.0)
    assert not any(looks(watchdog, IDLE))


def test_without_a_setting_a_worker_has_a_quarter_of_an_hour(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_HUNG_S")
    assert Watchdog().hung_s == 900


def test_a_setting_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("FEDSCAPE_HUNG_S", "never")
    with pytest.raises(InvalidConfig, match="FEDSCAPE_HUNG_S: 'never', must be a whole number"):
        Watchdog()


def test_one_write_may_take_a_minute_at_most_and_steps_longer(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_HUNG_S")
    *before, last = looks(Watchdog(), *[WRITING] * 61)
    assert not any(before) and "did not finish a write to the database within 60 s" in last
    assert not any(looks(Watchdog(), *[IDLE] * 899))


def test_many_writes_in_a_row_are_not_one_long_write(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_HUNG_S")
    assert not any(looks(Watchdog(), *(HeartbeatCounts(7, 1 + 2 * (second // 50)) for second in range(200))))


def test_the_screen_hears_when_a_worker_that_blocks_everyone_is_restarted():
    watchdog: Watchdog[str] = Watchdog()
    looks(watchdog, *[WRITING] * 3)
    assert watchdog.notice == ""
    looks(watchdog, WRITING)
    assert watchdog.notice == "A worker is not responding; it will be restarted in 2 s"
    looks(watchdog, HeartbeatCounts(7, 4))
    assert watchdog.notice == ""


def test_a_worker_that_computes_in_silence_is_no_news_before_it_is_killed():
    watchdog: Watchdog[str] = Watchdog()
    looks(watchdog, *[IDLE] * 5)
    assert watchdog.notice == ""


# Where signs of life come from: never out of the database.


def test_a_life_counts_beats_and_writes_also_where_a_write_fails():
    life = Heartbeat()
    life.beat()
    with life.writing():
        assert life.counts == HeartbeatCounts(1, 1) and life.counts.is_writing
    with pytest.raises(KeyError), life.writing():
        raise KeyError
    assert life.counts == HeartbeatCounts(1, 4) and not life.counts.is_writing


def test_a_store_marks_its_writes_and_the_wait_for_their_lock(store):
    seen: list[HeartbeatCounts] = []
    life = Heartbeat()
    ours = Store(store.url, timeout_s=0.01, writing=life.writing)
    with closing(driver().connect(sa.make_url(store.url).database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseLocked):
            ours.queue.claim()
    assert life.counts == HeartbeatCounts(0, 2)
    sa.event.listen(ours._database.engine, "commit", lambda connection: seen.append(life.counts))
    queue(ours)
    assert seen == [HeartbeatCounts(0, 3)] and life.counts == HeartbeatCounts(0, 4)
    ours.queue.counts()
    assert life.counts == HeartbeatCounts(0, 4)
    ours.close()


def test_every_step_of_a_run_is_a_sign_of_life_also_while_nothing_can_be_stored(store, clock, monkeypatch):
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


def test_whoever_waits_for_the_database_gives_signs_of_life(monkeypatch):
    monkeypatch.setattr(retry.time, "sleep", lambda seconds: None)
    beats: list[int] = []

    def ask() -> str:
        beats.append(HEARTBEAT.counts.beats)
        if len(beats) < 5:
            raise DatabaseLocked("locked")
        return "stored"

    assert retry.until_available(ask) == "stored"
    assert beats == sorted(set(beats))


def test_an_analysis_gives_signs_of_life_by_getting_on_not_by_repeating_itself(store, clock):
    run = compute(store)
    store.analyses.request(run.id, "features", {})
    watch = ProgressReporter(store, claim_analysis(store), clock)
    for share, is_a_sign in ((0.1, True), (0.1, False), (0.05, False), (float("nan"), False), (0.2, True)):
        clock.now += analysis_session.REPORT_S
        before = HEARTBEAT.counts.beats
        watch(share)
        assert (HEARTBEAT.counts.beats > before) == is_a_sign


# What becomes of its work.


def verdict() -> str:
    return looks(Watchdog(), *[IDLE] * 6)[-1]


def test_a_run_whose_worker_hangs_is_taken_up_again(store, dispatcher, executor):
    (run_id,) = queue(store)
    dispatcher.step()
    executor.end(verdict())
    dispatcher.step()
    assert [(ticket.run_id, ticket.epoch) for ticket in executor.tickets] == [(run_id, 2)]
    (event,) = store.events.list(run_id)
    assert event.kind == "worker-died" and "no heartbeat for 5 s" in event.message


def test_a_run_that_hangs_again_and_again_is_given_up_with_what_to_do(store, dispatcher, executor):
    (run_id,) = queue(store)
    for _ in range(MAX_DEATHS):
        dispatcher.step()
        executor.end(verdict())
    dispatcher.step()
    run = store.queue.get(run_id)
    assert run.status == "failed"
    assert "given up after 3 attempts" in run.error and "increase FEDSCAPE_HUNG_S, then retry" in run.error
    assert dispatcher.is_idle


def test_what_should_stop_is_killed_also_while_nobody_can_write(store, dispatcher, executor, clock, monkeypatch):
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


def test_what_the_executor_notices_is_there_for_other_processes_to_read(store, dispatcher, executor):
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
