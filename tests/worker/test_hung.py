"""Workers that live but no longer get on: killed after a time, which counts as their death."""

import pytest

from engine.errors import InvalidConfig
from engine.worker import Dispatcher
from engine.worker.claims import MAX_DEATHS
from engine.worker.dispatcher import BEAT_S, LOOK_S
from engine.worker.watchdog import LOOK_COUNTS_S, Watchdog
from storage import DatabaseLocked
from tests.worker.samples import claim, queue

RUN, OTHER = ("run", 1), ("run", 2)


@pytest.fixture(autouse=True)
def hung_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_HUNG_S", "5")


def test_a_sign_that_stays_the_same_for_too_long_tells_who_hangs():
    watchdog = Watchdog()
    signs = [{RUN: 0, OTHER: second} for second in range(7)]
    assert [watchdog.hung(sign, 1.0) for sign in signs] == [[], [], [], [], [], [RUN], [RUN]]


def test_a_sign_that_changes_begins_the_count_anew():
    watchdog = Watchdog()
    for beat in (0, 0, 0, 0, 1, 1, 1, 1, 1):
        assert watchdog.hung({RUN: beat}, 1.0) == []


def test_time_in_which_nobody_looked_hardly_counts():
    watchdog = Watchdog()
    for _ in range(4):
        assert watchdog.hung({RUN: 0}, 10_000.0) == []  # as after a night with the lid closed
    assert LOOK_COUNTS_S <= 5 / 4


def test_what_has_ended_in_between_is_forgotten():
    watchdog = Watchdog()
    watchdog.hung({RUN: 0}, 1.0)
    for _ in range(4):
        watchdog.hung({RUN: 0}, 1.0)
    watchdog.hung({}, 1.0)
    assert watchdog.hung({RUN: 0}, 1.0) == []


def test_without_a_setting_a_worker_has_a_quarter_of_an_hour(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_HUNG_S")
    assert Watchdog().hung_s == 900


def test_a_setting_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("FEDSCAPE_HUNG_S", "never")
    with pytest.raises(InvalidConfig, match="FEDSCAPE_HUNG_S: 'never', but a whole number"):
        Watchdog()


def pass_seconds(dispatcher: Dispatcher, clock, seconds: float) -> None:
    """With a turn of the dispatcher every time it looks."""
    end = clock.now + seconds
    while clock.now < end:
        clock.now += LOOK_S
        dispatcher.step()


def test_a_run_whose_worker_hangs_is_taken_up_again(store, dispatcher, executor, clock):
    (run_id,) = queue(store)
    dispatcher.step()
    pass_seconds(dispatcher, clock, 4.0)
    assert [ticket.epoch for ticket in executor.tickets] == [1]
    pass_seconds(dispatcher, clock, 2.0)
    assert [(ticket.run_id, ticket.epoch) for ticket in executor.tickets] == [(run_id, 2)]
    (event,) = store.events.list(run_id)
    assert event.kind == "worker-died"
    assert "no sign of life for 5 s" in event.message and "FEDSCAPE_HUNG_S" in event.message


def test_a_run_that_gives_signs_of_life_is_left_alone(store, dispatcher, executor, clock):
    (run_id,) = queue(store)
    dispatcher.step()
    for _ in range(4):
        pass_seconds(dispatcher, clock, 3.0)
        store.queue.heartbeat(run_id, executor.tickets[0].epoch)
    assert [ticket.epoch for ticket in executor.tickets] == [1]


def test_a_run_that_hangs_again_and_again_is_given_up_with_what_to_do(store, dispatcher, executor, clock):
    (run_id,) = queue(store)
    dispatcher.step()
    pass_seconds(dispatcher, clock, 6.0 * MAX_DEATHS)
    run = store.queue.get(run_id)
    assert run.status == "failed"
    assert "given up after 3 attempts" in run.error and "set FEDSCAPE_HUNG_S to more seconds, then retry" in run.error
    assert dispatcher.is_idle


def test_an_analysis_whose_progress_stands_still_is_begun_anew(store, dispatcher, executor, clock):
    queue(store)
    done = claim(store)
    store.queue.finish(done.run_id, done.epoch, "done")
    asked = store.analyses.request(done.run_id, "features", {})
    dispatcher.step()
    pass_seconds(dispatcher, clock, 3.0)
    store.analyses.report(asked.id, 1, 0.5)
    pass_seconds(dispatcher, clock, 4.0)
    assert store.analyses.get(asked.id).attempts == 1
    pass_seconds(dispatcher, clock, 3.0)
    assert store.analyses.get(asked.id).attempts == 2
    assert [(ticket.analysis_id, ticket.epoch) for ticket in executor.tickets] == [(asked.id, 2)]


def test_nobody_seems_to_hang_while_the_database_takes_no_writes(store, dispatcher, executor, clock, monkeypatch):
    queue(store)
    dispatcher.step()

    def locked(*_: object, **__: object) -> None:
        raise DatabaseLocked("locked")

    with monkeypatch.context() as patch:
        patch.setattr(store.engines, "beat", locked)
        clock.now += BEAT_S
        for _ in range(100):
            clock.now += 1.0
            with pytest.raises(DatabaseLocked):
                dispatcher.step()
    pass_seconds(dispatcher, clock, 3.0)
    assert [ticket.epoch for ticket in executor.tickets] == [1]
