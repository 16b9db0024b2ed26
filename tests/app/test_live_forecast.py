"""Forecasts of when queued runs will start, by the speed of similar runs and the available slots."""

import dataclasses

import pytest

from app.data.forecast import Pace, forecast, of_queue
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Limits, RunRecord, Store
from tests.app.samples import DIGITS


@pytest.fixture
def run(empty_store: Store) -> RunRecord:
    """FedAvg of 5 rounds, queued in experiment 1."""
    empty_store.experiments.create("queued", DIGITS, [new_run(parse_experiment(DIGITS).runs()[0])])
    return empty_store.queue.runs()[0]


def at(run: RunRecord, number: int, **values: object) -> RunRecord:
    return dataclasses.replace(run, id=number, **values)  # type: ignore[arg-type]


def test_speed_is_that_of_the_run_its_method_or_its_experiment(run: RunRecord) -> None:
    timed = [at(run, i, seconds_per_round=s) for i, s in ((1, 1.0), (2, 3.0))]
    timed.append(at(run, 3, algorithm="ditto", seconds_per_round=8.0))
    pace = Pace(timed)
    assert pace.left_s(at(run, 4, seconds_per_round=0.5, round=3)) == 2 * 0.5
    assert pace.left_s(at(run, 4)) == 5 * 2.0
    assert pace.left_s(at(run, 4, algorithm="pfedme")) == 5 * 3.0
    assert pace.left_s(at(run, 4, experiment_id=9)) == float("inf")


def test_runs_start_in_order_on_the_first_free_slot(run: RunRecord) -> None:
    running = [at(run, 1, seconds_per_round=2.0, round=0), at(run, 2, seconds_per_round=1.0, round=0)]  # 10 s and 5 s
    waiting = [at(run, 3), at(run, 4), at(run, 5)]  # 7.5 s each
    found = forecast(running, waiting, 2, Pace(running))
    assert found.starts_s == {3: 5.0, 4: 10.0, 5: 12.5}
    assert found.ends_s == {1: 10.0, 2: 5.0, 3: 12.5, 4: 17.5, 5: 20.0}
    assert found.end_s == 20.0


def test_free_slots_are_used_at_once(run: RunRecord) -> None:
    found = forecast([], [at(run, 1, seconds_per_round=1.0), at(run, 2, seconds_per_round=1.0)], 2, Pace([]))
    assert found.starts_s == {1: 0.0, 2: 0.0}
    assert found.end_s == 5.0


def test_an_owner_has_no_more_runs_at_a_time_than_allowed(run: RunRecord) -> None:
    mine = [at(run, i, owner="ada", seconds_per_round=12.0) for i in range(1, 9)]
    other = at(run, 9, owner="bob", seconds_per_round=12.0)
    found = forecast(mine[:1], [*mine[1:], other], 4, Pace([]), Limits(running=1))
    assert found.starts_s == {9: 0.0} | {i: 60.0 * (i - 1) for i in range(2, 9)}
    assert found.end_s == 480.0
    nobody = [at(one, one.id, owner="") for one in mine]
    assert forecast([], nobody, 4, Pace([]), Limits(running=1)).end_s == 120.0


def test_an_owner_at_the_limit_of_a_day_starts_at_an_unknown_time(run: RunRecord) -> None:
    mine = [at(run, i, owner="ada", seconds_per_round=12.0) for i in (1, 2, 3)]
    other = at(run, 4, owner="bob", seconds_per_round=12.0)
    found = forecast([], [*mine, other], 1, Pace([]), Limits(day_s=300.0), {"ada": 200.0, "bob": 300.0})
    assert found.starts_s == {1: 0.0, 2: 60.0} and found.end_s is None
    assert found.ends_s == {1: 60.0, 2: 120.0}


def test_the_queue_is_forecast_with_the_limits_of_owners(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [new_run(one) for one in parse_experiment(DIGITS | {"seeds": [0, 1]}).runs()[:2]]
    experiment = empty_store.experiments.create("timed", DIGITS, runs, owner="ada@lab.test")
    claimed = empty_store.queue.claim()
    assert claimed is not None
    empty_store.queue.heartbeat(claimed.id, claimed.epoch, seconds_per_round=2.0)
    empty_store.engines.heartbeat(host="here", pid=1, device="cpu", slots=2, running=1)
    waiting = empty_store.queue.waiting()
    assert [one.experiment_id for one in waiting] == [experiment.id]
    lock = empty_store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        assert of_queue(empty_store, waiting).starts_s == {waiting[0].id: 0.0}
        monkeypatch.setenv("FEDSCAPE_MAX_RUNNING", "1")
        assert of_queue(empty_store, waiting).starts_s == {waiting[0].id: 10.0}
        monkeypatch.setenv("FEDSCAPE_MAX_MINUTES", "0")
        assert of_queue(empty_store, waiting).starts_s == {}


def test_without_a_known_speed_there_is_no_forecast(run: RunRecord) -> None:
    found = forecast([at(run, 1)], [at(run, 2), at(run, 3)], 2, Pace([]))
    assert found.starts_s == {2: 0.0} and found.end_s is None
    assert forecast([], [at(run, 2)], 0, Pace([])).starts_s == {}


def test_without_a_worker_there_is_no_forecast(empty_store: Store, run: RunRecord) -> None:
    empty_store.engines.heartbeat(host="gone", pid=1, device="cpu", slots=2, running=0)
    assert of_queue(empty_store, [run]).starts_s == {}
    lock = empty_store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        assert of_queue(empty_store, [run]).starts_s == {run.id: 0.0}
