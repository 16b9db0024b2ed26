"""Failed runs: what happened, why and what to do, with equal failures combined."""

import dataclasses
import math
import re
from functools import partial

import pytest

from app.live.trouble import troubles
from app.state import links
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from engine.worker.work_queue import DIED, KILLED
from storage import RunRecord, Status, Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS
from tests.storage.samples import a_round

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


def end(store: Store, status: Status, error: str | None = None, kind: str | None = None) -> RunRecord:
    """Ends the next run of the queue with this status and event."""
    run = store.queue.claim()
    assert run is not None
    if kind:
        store.events.add(run.id, "error", kind, "exit by signal 9")
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
        ("given up after 3 attempts: the worker was ended by signal 9", "out of memory"),
        ("unexpected error: TypeError: no; the run's log has the details", "bug in the method"),
    ],
)
def test_advice_depends_on_the_kind_of_failure(store: Store, error: str, advice: str) -> None:
    assert advice in report(store, end(store, "failed", error))[0][2]


def test_a_worker_death_is_reported_while_the_run_continues(store: Store, run: RunRecord) -> None:
    store.events.add(run.id, "error", DIED, "exit by signal 9")
    ((happened, _, todo),) = report(store, dataclasses.replace(run, status="running", round=3))
    assert happened == "FedAvg, seed 0 lost its worker and will resume at round 3 of 5."
    assert "last checkpoint" in todo
    assert report(store, dataclasses.replace(run, status="done")) == []


def test_a_lost_run_reports_whether_engine_or_worker_is_missing(store: Store, run: RunRecord) -> None:
    running = dataclasses.replace(run, status="running", round=3)
    assert "engine worker" in report(store, running, silent_s=math.inf)[0][2]
    assert "Wait" in report(store, running, silent_s=40)[0][2]
    assert report(store, running, silent_s=5) == []


def test_a_cancelled_run_with_a_killed_worker_is_reported(store: Store) -> None:
    assert "worker terminated" in report(store, end(store, "cancelled", kind=KILLED))[0][0]


def test_a_card_has_the_log_and_retries_with_the_same_seed(store: Store) -> None:
    end(store, "failed", "the data set is gone; put it back\nsecond line", kind="data")
    page = opened()
    advice = words(page)
    assert page.header[0].value == "What went wrong?"
    assert "FedAvg, seed 0 failed before its first round." in advice
    assert "exit by signal 9" in advice and "second line" in advice
    page.button(key="trouble_1_retry").click().run()
    again = store.queue.runs(newest_first=True)[0]
    assert (again.id, again.seed, again.algorithm, again.status) == (5, 0, "fedavg", "queued")
    assert "[Retried as run 5](/live?runs=5)" in words(page)
    assert "trouble_1_retry" not in [button.key for button in page.button]


def test_a_card_retries_only_runs_without_a_retry(store: Store) -> None:
    for _ in range(2):
        end(store, "failed", "the data set is gone")
    store.queue.rerun([1])
    page = opened()
    assert page.button(key="trouble_1_retry").label == "Retry with the same seed"
    page.button(key="trouble_1_retry").click().run()
    assert [run.seed for run in store.queue.waiting()] == [0, 1, 0, 1]
    assert "[Retried as run 5 and run 6](/live?runs=5%2C6)" in words(page)


def test_a_run_deleted_meanwhile_is_not_retried(store: Store) -> None:
    end(store, "failed", "the data set is gone")
    page = opened()
    store.trash.put([1])
    page.button(key="trouble_1_retry").click().run()
    assert "no run with id 1" in page.error[0].value and len(store.queue.runs()) == 3


def test_a_card_links_to_a_run_with_rounds(store: Store) -> None:
    run = store.queue.claim()
    assert run is not None
    store.metrics.append(run.id, run.epoch, [a_round(0)])
    store.queue.finish(run.id, run.epoch, "failed", error="the data set is gone")
    end(store, "failed", "something else")
    advice = words(opened())
    assert "[Look inside](/run?id=1)" in advice and "[Look inside](/run?id=2)" not in advice


def test_several_runs_are_retried_at_once(store: Store) -> None:
    for _ in range(2):
        end(store, "failed", "the data set is gone")
    page = opened()
    assert page.button(key="trouble_1_retry").label == "Retry all 2 with the same seeds"
    page.button(key="trouble_1_retry").click().run()
    assert [run.seed for run in store.queue.waiting()] == [0, 1, 0, 1]


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


def test_the_page_of_a_run_has_its_card(store: Store) -> None:
    run = end(store, "failed", "the data set is gone")
    assert "FedAvg, seed 0 failed before its first round." in words(open_page("run", id=run.id))
