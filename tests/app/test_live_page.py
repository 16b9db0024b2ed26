"""The Live page as it runs without the routes: states, choices, buttons. What the browser draws is tested there."""

import re
from functools import partial

import pytest

from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Status, StorageError, Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS

opened = partial(open_page, "live")


def queue_two(store: Store) -> None:
    """FedAvg on two seeds: runs 1 and 2 of an empty database, 9 and 10 of the filled one."""
    raw = {**DIGITS, "name": "waiting", "algorithms": [{"name": "fedavg"}]}
    store.experiments.create("waiting", raw, [new_run(run) for run in parse_experiment(raw).runs()])


def finish(store: Store, status: Status, error: str) -> None:
    run = store.queue.claim()
    assert run is not None
    store.events.add(run.id, "error", "run", "client 3 has no finite loss")
    store.queue.finish(run.id, run.epoch, status, error=error)


def test_without_experiments_the_page_says_where_to_start(empty_store: Store) -> None:
    page = opened()
    assert page.title[0].value == "What is training now?"
    assert "(/setup)" in words(page)


def test_with_nothing_training_the_last_experiment_is_shown(filled_store: Store) -> None:
    page = opened()
    said = words(page)
    assert page.title[0].value == "How did it go?"
    assert "DIGITS · 10 CLIENTS · 3 CLASSES EACH · 2 SEEDS" in said
    assert "All 8 runs of four methods on digits finished." in said
    assert "FedAvg, seed 0 · done · round 5 of 5" in said
    assert "Lowest 5 % = 1 of 10 clients" in said


def test_a_mean_and_a_lowest_line_for_every_run(filled_store: Store) -> None:
    charts = opened().get("plotly_chart")
    assert len(charts) == 5
    assert '"dash":"dash"' in charts[0].spec
    assert len(re.findall(r'"meta":', charts[0].spec)) == 16


def test_what_trains_is_shown_before_what_is_done(filled_store: Store) -> None:
    queue_two(filled_store)
    assert "waiting: 2 queued." in words(opened())


def test_the_address_chooses_experiment_and_runs(filled_store: Store) -> None:
    queue_two(filled_store)
    assert "All 8 runs of" in words(opened(experiment="1"))
    assert "All 2 runs of" in words(opened(runs="3,4"))


@pytest.mark.parametrize("named", [{"runs": "99"}, {"experiment": "999"}])
def test_runs_that_are_not_here_any_more_give_way_to_those_that_are(filled_store: Store, named: dict[str, str]) -> None:
    page = opened(**named)
    assert "The runs in this link no longer exist" in words(page)
    page.selectbox[0].select(1).run()
    assert "All 8 runs of" in words(page)


def test_another_experiment_goes_into_the_address(filled_store: Store) -> None:
    queue_two(filled_store)
    page = opened()
    page.selectbox[0].select(1).run()
    assert page.query_params["experiment"] in ("1", ["1"])
    assert "All 8 runs of" in words(page)


def test_experiments_of_one_name_can_be_told_apart(empty_store: Store) -> None:
    queue_two(empty_store)
    queue_two(empty_store)
    options = opened().selectbox[0].options
    assert len(set(options)) == 2


def test_a_queued_run_is_paused_resumed_and_cancelled(empty_store: Store) -> None:
    queue_two(empty_store)
    page = opened()
    for action, status in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        page.button(key=f"{action}_1").click().run()
        assert empty_store.queue.get(1).status == status
    assert empty_store.queue.get(2).status == "queued"


def test_what_the_database_refuses_is_said(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("another program holds the database")

    queue_two(empty_store)
    page = opened()
    monkeypatch.setattr("storage.run_queue.RunQueue.request", refuse)
    page.button(key="pause_1").click().run()
    assert not page.exception
    assert "another program holds the database" in page.error[0].value


def test_all_runs_are_cancelled_at_once_after_a_question(empty_store: Store) -> None:
    queue_two(empty_store)
    empty_store.queue.claim()
    page = opened()
    assert "Cancel 2 runs? 1 is training; completed rounds are kept." in words(page)
    page.button(key="all_cancel_now").click().run()
    assert empty_store.queue.get(1).control == "cancel" and empty_store.queue.get(2).status == "cancelled"


def test_a_failed_run_says_why_and_is_tried_again(empty_store: Store) -> None:
    queue_two(empty_store)
    finish(empty_store, "failed", "the data set is gone; put it back\nsecond line")
    page = opened()
    assert "failed · waits" not in words(page)
    assert "the data set is gone; put it back" in words(page)
    assert "client 3 has no finite loss" in words(page)
    page.button(key="retry_1").click().run()
    assert [run.status for run in empty_store.queue.runs(newest_first=False)] == ["failed", "queued", "queued"]


def test_at_most_twelve_runs_are_drawn_and_the_rest_is_named(empty_store: Store) -> None:
    raw = {**DIGITS, "seeds": [0, 1, 2, 3]}
    empty_store.experiments.create("many", raw, [new_run(run) for run in parse_experiment(raw).runs()])
    page = opened()
    assert len(page.multiselect[0].value) == 12
    assert len(page.multiselect[0].options) == 16
    assert {run.seed for run in empty_store.queue.runs(run_ids=page.multiselect[0].value)} == {0, 1, 2}


@pytest.mark.parametrize("number", ["99999999999999999999", "abc", "9" * 5000])
def test_numbers_of_no_run_leave_the_page_standing(filled_store: Store, number: str) -> None:
    assert opened(runs=number).title
    assert opened(experiment=number).title


def test_runs_that_have_begun_can_be_looked_into(filled_store: Store) -> None:
    queue_two(filled_store)
    said = words(opened(runs="5,9"))
    assert "(/run?id=5)" in said and "(/run?id=9)" not in said
