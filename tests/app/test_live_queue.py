"""The queue on the Live page: order, moves, priorities, pausing and cancelling."""

from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from app.data.forecast import Forecast
from app.live import up_next
from app.live.up_next import Turns
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS

opened = partial(open_page, "live")


@pytest.fixture
def store(empty_store: Store) -> Store:
    """FedAvg on seeds 0 to 3: runs 1 to 4, queued."""
    raw = {**DIGITS, "algorithms": [{"name": "fedavg"}], "seeds": [0, 1, 2, 3]}
    empty_store.experiments.create("four", raw, [new_run(run) for run in parse_experiment(raw).runs()])
    return empty_store


def order(store: Store) -> list[int]:
    return [run.id for run in store.queue.waiting()]


def table(page: AppTest) -> list[int]:
    return list(page.dataframe[0].value["run"])


def test_runs_are_listed_in_queue_order_with_paused_ones_last(store: Store) -> None:
    store.queue.request([1], "pause")
    store.queue.prioritize([4], 1)
    page = opened()
    assert table(page) == [4, 2, 3, 1]
    rows = page.dataframe[0].value
    assert list(rows["place"]) == ["1", "2", "3", ""]
    assert list(rows["priority"]) == ["high", "normal", "normal", "normal"]
    assert rows["starts"].iloc[-1] == "paused"
    assert "3 queued, 1 paused." in words(page)


def test_known_start_and_end_times_are_shown(store: Store) -> None:
    waiting = store.queue.waiting()
    rows = up_next.data(Turns([], waiting, []), Forecast({1: 0.0, 2: 90.0}, {}, 200.0))
    assert list(rows["starts"]) == ["now", "in 2 min", "–", "–"]
    summary = up_next.summary(Turns(waiting[:1], waiting[1:], []), Forecast({}, {}, 200.0))
    assert summary == "1 running, 3 queued. Estimated time left: 3 min."
    assert up_next.summary(Turns([], waiting[:1], waiting[2:]), Forecast({}, {}, None)) == "1 queued, 2 paused."


@pytest.mark.slow
def test_a_moved_run_stays_selected(store: Store) -> None:
    page = opened(queued="3")
    for to, moved in (("first", [3, 1, 2, 4]), ("last", [1, 2, 4, 3]), ("earlier", [1, 2, 3, 4])):
        page.button(key=f"queue_{to}").click().run()
        assert order(store) == moved == table(page)
        assert page.multiselect(key="queue_chosen").value == [3]


@pytest.mark.slow
def test_runs_are_selected_by_name_and_in_the_address_and_moved_or_prioritized_together(store: Store) -> None:
    page = opened()
    page.multiselect(key="queue_chosen").set_value([2, 4]).run()
    assert page.query_params["queued"] in ("2,4", ["2,4"])
    page.button(key="queue_last").click().run()
    assert order(store) == [1, 3, 2, 4]
    page.get("button_group")[-1].set_value("high").run()
    assert order(store) == [2, 4, 1, 3]
    assert [run.priority for run in store.queue.waiting()] == [1, 1, 0, 0]


@pytest.mark.slow
def test_selected_runs_are_paused_resumed_and_cancelled(store: Store) -> None:
    page = opened(queued="1,2")
    page.button(key="queue_pause").click().run()
    assert order(store) == [3, 4]
    page.button(key="queue_resume").click().run()
    assert order(store) == [1, 2, 3, 4]
    assert "Cancel 2 runs?" in words(page)
    page.button(key="queue_cancel_now").click().run()
    assert store.queue.counts() == {"cancelled": 2, "queued": 2}


@pytest.mark.slow
def test_the_whole_queue_is_paused_at_once(store: Store) -> None:
    page = opened()
    page.button(key="queue_pause").click().run()
    assert store.queue.counts() == {"paused": 4}
    page.button(key="queue_resume").click().run()
    page.button(key="queue_cancel_now").click().run()
    assert store.queue.counts() == {"cancelled": 4}


@pytest.mark.slow
def test_running_runs_are_listed_first_and_can_be_paused(store: Store) -> None:
    store.queue.claim()
    page = opened(queued="1")
    assert table(page) == [1, 2, 3, 4]
    assert list(page.dataframe[0].value["place"]) == ["now", "1", "2", "3"]
    assert "1 is training" in words(page)
    page.button(key="queue_pause").click().run()
    assert store.queue.get(1).control == "pause"


@pytest.mark.slow
def test_a_running_run_that_is_not_drawn_is_listed(store: Store) -> None:
    store.queue.request([2, 3, 4], "cancel")
    store.queue.claim()
    assert not opened().dataframe
    assert table(opened(runs="2")) == [1]


def test_a_long_queue_shows_its_beginning(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_next, "MAX_ROWS", 3)
    page = opened()
    assert table(page) == [1, 2, 3]
    assert "1 more in the queue" in words(page)


def test_without_queued_runs_there_is_no_queue(read_store: Store) -> None:
    assert "Up next" not in words(opened())
