"""Failed runs: what happened, why and what to do, with equal failures combined."""

import dataclasses
import math
import re
from functools import partial
from typing import Literal

import pytest

from app.live.trouble import troubles
from app.state import links
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from engine.worker import Dispatcher
from engine.worker.dispatcher import CHECK_S, STOP_GRACE_S
from engine.worker.executor import Ticket
from engine.worker.local_executor import NO_MEMORY
from engine.worker.work_queue import DIED, KILLED, MAX_DEATHS, RunClaims
from storage import RunRecord, Status, Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS
from tests.storage.samples import a_round
from tests.worker.fakes import Clock, FakeExecutor

opened = partial(open_page, "live")


@pytest.fixture
def store(empty_store: Store) -> Store:
    """FedAvg and LocalTrain on two seeds: runs 1 to 4, queued."""
    raw = {**DIGITS, "algorithms": DIGITS["algorithms"][:2]}
    empty_store.experiments.create("four", raw, [new_run(run) for run in parse_experiment(raw).runs()])
    return empty_store


@pytest.fixture
def run(store: Store) -> RunRecord:
    return store.queue.get(1)


@pytest.fixture
def claims(store: Store) -> RunClaims:
    return RunClaims(store, None)


def claimed(claims: RunClaims) -> Ticket:
    (ticket,) = claims.claim(together=False)
    return ticket


def stop_by_force(store: Store, control: Literal["cancel", "pause"]) -> None:
    """Requests this of the queued runs once they have started; their workers do not stop and are killed."""
    clock = Clock()
    with Dispatcher(store, FakeExecutor(), store.try_dispatcher_lock(), clock=clock) as dispatcher:
        dispatcher.step()
        store.queue.request(store.queue.ids(["queued", "running"]), control)
        for seconds in (CHECK_S, STOP_GRACE_S):
            clock.now += seconds
            dispatcher.step()


def end(
    store: Store, status: Status, error: str | None = None, kind: str | None = None, message: str = "exit by signal 9"
) -> RunRecord:
    """Ends the next run of the queue with this status and event."""
    run = store.queue.claim()
    assert run is not None
    if kind:
        store.events.add(run.id, "error", kind, message)
    store.queue.finish(run.id, run.epoch, status, error=error)
    return store.queue.get(run.id)


def report(store: Store, *runs: RunRecord, silent_s: float = 0.0) -> list[tuple[str, str, str]]:
    events = store.events.for_runs([run.id for run in runs])
    return [(t.happened, t.why, t.todo) for t in troubles(runs, events, {run.id: silent_s for run in runs})]


def test_healthy_runs_are_not_reported(store: Store, run: RunRecord) -> None:
    running = dataclasses.replace(run, status="running", round=3)
    cancelled = end(store, "cancelled")
    assert report(store, run, running, cancelled, end(store, "done")) == []


def test_a_failure_is_reported_with_its_reason(store: Store) -> None:
    run = end(store, "failed", "the data set is gone; put it back\nsecond line")
    ((happened, why, todo),) = report(store, run)
    assert happened == "FedAvg, seed 0 failed before its first round."
    assert why == "The data set is gone; put it back."
    assert "then retry" in todo


def test_equal_failures_are_reported_once(store: Store) -> None:
    runs = [end(store, "failed", "the data set is gone") for _ in range(3)]
    other = end(store, "failed", "another reason")
    several, one = report(store, *runs, other)
    assert several[0] == "3 runs failed: FedAvg, seed 0, FedAvg, seed 1 and LocalTrain, seed 0."
    assert one[1] == "Another reason."


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            "given up after 3 attempts: the worker process ended with exit code 1, then retry",
            "Other runs are not affected",
        ),
        ("unexpected error: TypeError: no; the run's log has the details", "bug in the method"),
    ],
)
def test_advice_depends_on_the_kind_of_failure(store: Store, error: str, advice: str) -> None:
    assert advice in report(store, end(store, "failed", error))[0][2]


@pytest.mark.parametrize(
    "problem",
    [
        "the worker process was killed by signal 9" + NO_MEMORY,
        "the worker sent no heartbeat for 900 s and was killed; if a single step can take that long, increase "
        "FEDSCAPE_HUNG_S",
        "the worker did not finish a write to the database within 60 s and was killed, since it blocked all other "
        "writes; check the disk or the database server",
        "the worker process ended with exit code 1; see the engine's output",
    ],
)
def test_only_the_stored_reason_says_why_workers_died(store: Store, claims: RunClaims, problem: str) -> None:
    store.queue.request([2, 3, 4], "cancel")
    expected = 1 if "signal 9" in problem else 0
    for _ in range(MAX_DEATHS):
        claims.worker_died(claimed(claims), problem)
        ((_, why, todo),) = report(store, store.queue.get(1))
        assert problem[1:] in why
        assert f"{why} {todo}".count("memory") == expected


def test_a_worker_death_is_reported_until_its_run_resumes(store: Store, claims: RunClaims) -> None:
    first = claimed(claims)
    store.metrics.append(first.run_id, first.epoch, [a_round(0), a_round(1)])
    claims.worker_died(first, "the worker process ended with exit code 1")
    ((happened, why, todo),) = report(store, store.queue.get(1))
    assert happened == "FedAvg, seed 0 lost its worker and will resume at round 1 of 5."
    assert why == "The worker process ended with exit code 1." and "last checkpoint" in todo
    resumed = claimed(claims)
    assert report(store, store.queue.get(1)) == []
    claims.release(resumed)
    assert report(store, store.queue.get(1)) == []


def test_workers_that_died_of_the_same_cause_are_reported_once(store: Store, claims: RunClaims) -> None:
    for rounds, ticket in enumerate([claimed(claims), claimed(claims)], 1):
        store.metrics.append(ticket.run_id, ticket.epoch, [a_round(r) for r in range(rounds)])
        claims.worker_died(ticket, "the worker process ended with exit code 1")
    assert len(report(store, store.queue.get(1), store.queue.get(2))) == 1


def test_the_death_of_an_analysis_is_not_one_of_its_run(store: Store, run: RunRecord) -> None:
    store.events.add(run.id, "error", DIED, "analysis 3: the worker process ended with exit code 1")
    assert report(store, dataclasses.replace(run, heartbeat_at=run.created_at)) == []


def test_a_lost_run_reports_whether_engine_or_worker_is_missing(store: Store, run: RunRecord) -> None:
    running = dataclasses.replace(run, status="running", round=3)
    assert "engine worker" in report(store, running, silent_s=math.inf)[0][2]
    assert "Wait" in report(store, running, silent_s=40)[0][2]
    assert report(store, running, silent_s=5) == []


def test_a_run_whose_worker_was_killed_to_cancel_it_is_reported(store: Store) -> None:
    stop_by_force(store, "cancel")
    assert "worker terminated" in report(store, store.queue.get(1))[0][0]


def test_a_worker_killed_earlier_to_pause_its_run_did_not_cancel_it(store: Store, claims: RunClaims) -> None:
    stop_by_force(store, "pause")
    assert "run 1 is now paused" in store.events.list(1)[-1].message
    store.queue.resume([1])
    assert claimed(claims).run_id == 1
    store.queue.finish(1, store.queue.get(1).epoch, "cancelled")
    assert report(store, store.queue.get(1)) == []


def test_a_worker_killed_to_cancel_an_analysis_did_not_cancel_the_run(store: Store) -> None:
    run = end(store, "cancelled", kind=KILLED, message="the worker was killed; analysis 3 is now cancelled")
    assert report(store, run) == []


@pytest.mark.slow
def test_a_card_has_the_log_and_retries_with_the_same_seed(store: Store) -> None:
    end(store, "failed", "the data set is gone; put it back\nsecond line", kind="data")
    page = opened()
    advice = words(page)
    assert page.header[0].value == "What went wrong?"
    assert page.button(key="trouble_1_retry").label == "Retry with the same seed"
    assert "FedAvg, seed 0 failed before its first round." in advice
    assert "exit by signal 9" in advice and "second line" in advice
    page.button(key="trouble_1_retry").click().run()
    again = store.queue.runs(newest_first=True)[0]
    assert (again.id, again.seed, again.algorithm, again.status) == (5, 0, "fedavg", "queued")
    assert "[Retried as run 5](/live?runs=5)" in words(page)
    assert "trouble_1_retry" not in [button.key for button in page.button]


@pytest.mark.slow
def test_a_card_retries_all_runs_without_a_retry_at_once(store: Store) -> None:
    for _ in range(3):
        end(store, "failed", "the data set is gone")
    store.queue.rerun([1])
    page = opened()
    assert page.button(key="trouble_1_retry").label == "Retry all 2 with the same seeds"
    page.button(key="trouble_1_retry").click().run()
    waiting = [(run.algorithm, run.seed) for run in store.queue.waiting()]
    assert waiting == [("local_train", 1), ("fedavg", 0), ("fedavg", 1), ("local_train", 0)]
    assert "[Retried as run 5, run 6 and run 7](/live?runs=5%2C6%2C7)" in words(page)


@pytest.mark.slow
def test_a_run_deleted_meanwhile_is_not_retried(store: Store) -> None:
    end(store, "failed", "the data set is gone")
    page = opened()
    store.trash.put([1])
    page.button(key="trouble_1_retry").click().run()
    assert "this page was out of date" in page.error[0].value and len(store.queue.runs()) == 3


@pytest.mark.slow
def test_a_card_links_to_a_run_with_rounds(store: Store) -> None:
    run = store.queue.claim()
    assert run is not None
    store.metrics.append(run.id, run.epoch, [a_round(0)])
    store.queue.finish(run.id, run.epoch, "failed", error="the data set is gone")
    end(store, "failed", "something else")
    advice = words(opened())
    assert "[Look inside](/run?id=1)" in advice and "[Look inside](/run?id=2)" not in advice


def test_a_diverged_run_offers_a_third_of_its_learning_rate(store: Store) -> None:
    end(store, "diverged", "the training loss of client 3 is not finite at round 2")
    advice = words(opened())
    assert "client 3 is not finite" in advice and "a third of lr = 0.05" in advice
    packed = re.search(r"/setup\?config=([\w-]+)", advice)
    assert packed is not None
    config = links.unpack_config(packed[1])
    assert config["training"]["lr"] == pytest.approx(0.05 / 3, rel=0.02)
    assert config["name"] == "FedAvg on Digits, lr = 0.0167"
    assert [run.seed for run in parse_experiment(config).runs()] == [0]


def test_all_seeds_of_a_diverged_method_are_set_up_together(store: Store) -> None:
    for _ in range(3):
        end(store, "diverged", "not finite")
    configs = [links.unpack_config(packed) for packed in re.findall(r"/setup\?config=([\w-]+)", words(opened()))]
    assert [(c["algorithms"][0]["name"], c["seeds"]) for c in configs] == [("fedavg", [0, 1]), ("local_train", [0])]


def test_all_splits_of_a_diverged_method_are_set_up_together(empty_store: Store) -> None:
    raw = DIGITS | {"algorithms": ["fedavg"], "splits": [3, 4], "seeds": [0], "attack": "labels"}
    runs = parse_experiment(raw).runs()
    empty_store.experiments.create("two splits", raw, [new_run(run) for run in runs])
    for _ in runs:
        end(empty_store, "diverged", "not finite")
    (packed,) = re.findall(r"/setup\?config=([\w-]+)", words(opened()))
    config = links.unpack_config(packed)
    assert (config["splits"], config["seeds"], config["attack"]["name"]) == ([3, 4], [0], "labels")


def test_the_page_of_a_run_has_its_card(store: Store) -> None:
    run = end(store, "failed", "the data set is gone")
    assert "FedAvg, seed 0 failed before its first round." in words(open_page("run", id=run.id))
