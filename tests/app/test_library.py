"""The Library page on its own database."""

import json
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest

from app.data import run_table
from app.library import filters, listing
from engine.exchange.records import new_run
from storage import Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS

opened = partial(open_page, "library")


def listed(page: AppTest) -> list[Any]:
    """The runs in the order of the table."""
    return [run_id for ids in page.dataframe[0].value["runs"] for run_id in ids]


def test_the_first_start_offers_the_demo_and_an_import(empty_store: Store):
    page = opened()
    assert "60-second demo" in page.button(key="demo").label
    assert not page.dataframe


def test_the_demo_queues_its_preset_and_opens_live(empty_store: Store):
    page = opened()
    assert "Watch it train" not in words(page)
    page.button(key="demo").click().run()
    assert not page.exception
    assert "[Watch it train](/live)" in words(page)
    assert empty_store.queue.counts() == {"queued": 15}


def test_every_run_is_listed_newest_first(read_store: Store):
    page = opened()
    assert listed(page) == [8, 7, 6, 5, 4, 3, 2, 1]
    assert 0 < page.dataframe[0].value["mean"].min() <= 100


def test_a_text_search_finds_runs(read_store: Store):
    assert listed(opened(q="k=3 digits")) == [8, 7]
    assert not opened(q="nothing like it").dataframe


def test_filters_are_in_the_address(read_store: Store):
    page = opened(method="ditto,fedavg", status="done")
    assert listed(page) == [6, 5, 2, 1]
    page.multiselect(key="address_method").set_value(["fedavg"]).run()
    assert listed(page) == [2, 1] and str(page.query_params["method"]) == "fedavg"


def test_days_are_in_the_address(read_store: Store):
    assert not opened(**{"when": "days", "from": "2020-01-01", "to": "2020-12-31"}).dataframe
    assert len(listed(opened(**{"when": "days", "from": "2020-01-01"}))) == 8
    assert len(listed(opened(when="day"))) == 8


def test_a_column_of_times_names_its_time_zone(monkeypatch: pytest.MonkeyPatch):
    assert listing.times("Queued")["label"] == "Queued (UTC)"
    monkeypatch.setattr(filters, "zone", lambda: ZoneInfo("Europe/Berlin"))
    column = listing.times("Queued")
    assert column["label"] == "Queued" and column["help"] == "In the time zone Europe/Berlin"


def test_runs_sort_by_accuracy(read_store: Store):
    means = opened(sort="mean").dataframe[0].value["mean"].tolist()
    assert means == sorted(means, reverse=True)


def test_groups_combine_seeds(read_store: Store):
    table = opened(group="method").dataframe[0].value
    assert table["method"].tolist() == ["CGPFL K=3", "Ditto", "LocalTrain", "FedAvg"]
    assert table["number"].tolist() == [2, 2, 2, 2] and table["std"].notna().all()


@pytest.mark.slow
def test_selected_runs_are_in_the_address(read_store: Store):
    page = opened(runs="3,4,999")
    assert page.multiselect(key="library_runs").value == [3, 4]
    page.multiselect(key="library_runs").set_value([1]).run()
    assert str(page.query_params["runs"]) == "1"


def test_rows_of_selected_runs_and_of_complete_groups_are_ticked(read_store: Store):
    def rows(page: AppTest) -> list[int]:
        return json.loads(page.dataframe[0].proto.selection_default)["selection"]["rows"]

    assert rows(opened(runs="8,6")) == [0, 2]
    assert rows(opened(runs="8,7,6", group="method")) == [0]


def test_selected_runs_open_in_compare_and_their_experiment_in_set_up(read_store: Store):
    page = opened(runs="1,2")
    page.button(key="compare").click().run()
    assert any("/compare?runs=1%2C2" in text.value for text in page.markdown)
    page.button(key="open_setup").click().run()
    assert any("/setup?config=" in text.value for text in page.markdown)


def test_undo_restores_deleted_runs(filled_store: Store):
    page = opened(runs="1,2")
    page.button(key="delete").click().run()
    assert page.success[0].value == "Deleted 2 runs." and "runs" not in page.query_params
    assert {run.id for run in filled_store.queue.runs()} == {3, 4, 5, 6, 7, 8}
    page.button(key="library_offer_0").click().run()
    assert page.success[0].value == "Restored 2 runs."
    assert len(filled_store.queue.runs()) == 8 and str(page.query_params["runs"]) == "1,2"


@pytest.mark.slow
def test_undo_is_offered_until_the_next_action(filled_store: Store):
    page = opened(runs="1")
    page.button(key="delete").click().run()
    page.text_input(key="address_q").set_value("ditto").run()
    assert offers(page) == ["Undo"]
    page.multiselect(key="library_runs").set_value([5]).run()
    page.button(key="archive").click().run()
    assert offers(page) == []
    assert [run.id for run in filled_store.trash.list()] == [1]


def test_a_running_run_cannot_be_deleted_but_cancelled(filled_store: Store):
    (run,) = filled_store.queue.rerun([1])
    filled_store.queue.claim()
    page = opened(runs=f"2,{run.id}")
    page.button(key="delete").click().run()
    assert page.success[0].value == "Deleted 1 run; 1 is still running; cancel it first."
    assert offers(page) == ["Undo", "Cancel 1 run"]
    page.button(key="library_offer_1").click().run()
    assert filled_store.queue.get(run.id).control == "cancel"


def test_days_out_of_range_are_ignored(read_store: Store):
    page = opened(**{"when": "days", "from": "0001-01-01", "to": "9999-12-31"})
    assert len(listed(page)) == 8
    assert not {"from", "to"} & {*page.query_params}


def test_archived_runs_are_hidden_by_default(filled_store: Store):
    page = opened(runs="1,2")
    page.button(key="archive").click().run()
    assert 1 not in listed(page)
    assert 1 in listed(opened(archived="true"))


def test_rerunning_queues_copies_and_selects_them(filled_store: Store):
    page = opened(runs="1,2")
    page.button(key="rerun").click().run()
    assert str(page.query_params["runs"]) == "9,10"
    assert [run.status for run in filled_store.queue.runs(run_ids=[9, 10])] == ["queued", "queued"]


@pytest.mark.slow
def test_shipped_examples_can_be_loaded(empty_store: Store):
    page = opened()
    page.button(key="examples").click().run()
    assert not page.exception and page.success[0].value.startswith("Imported")
    assert all(name.endswith("(example)") for name in page.dataframe[0].value["experiment"])


def offers(page: AppTest) -> list[str]:
    """The buttons next to the last message."""
    return [button.label for button in page.button if str(button.key).startswith("library_offer_")]


def test_a_queued_run_has_no_accuracy_yet(empty_store: Store):
    from engine.config.schema import parse_experiment

    runs = [new_run(run) for run in parse_experiment(DIGITS).runs()]
    empty_store.experiments.create("waiting", dict(DIGITS), runs)
    table = run_table.data(empty_store.queue.runs())
    assert table["mean"].isna().all() and set(table["status"]) == {"queued"}


@pytest.mark.parametrize("number", ["99999999999999999999", "abc", "9" * 5000])
def test_unknown_run_ids_do_not_break_the_library(read_store: Store, number: str):
    assert opened(runs=number).title
    assert opened(experiment=number).title


@pytest.mark.slow
def test_a_single_run_can_be_opened(read_store: Store):
    page = opened(runs="5")
    page.button(key="inside").click().run()
    assert any("(/run?id=5)" in text.value for text in page.markdown)
    assert not [button for button in opened(runs="5,6").button if button.key == "inside"]
