"""The Compare page; every choice is in the address."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from app.compare.accuracy import low_mean_top
from app.compare.selection import newest
from app.compare.view import View
from app.data import queries
from app.data.comparison import methods_of
from app.report import comparison
from app.wording import unbroken
from engine.config.schema import parse_experiment
from engine.core.findings import Findings
from engine.exchange.records import new_run
from storage import Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment

opened = partial(open_page, "compare")


def test_without_runs_the_page_links_to_set_up(empty_store: Store) -> None:
    text = words(opened())
    assert "needs two methods" in text and "(/setup)" in text and "(/library)" in text


@pytest.mark.slow
def test_without_runs_shipped_results_can_be_loaded(empty_store: Store) -> None:
    page = opened()
    page.button(key="load_examples").click().run()
    assert not page.exception and "ahead in both seeds" in words(page) and "Example results" in words(page)


@pytest.mark.slow
def test_one_method_is_too_few_and_another_can_be_added(read_store: Store) -> None:
    page = opened(runs="1,2")
    assert "1 method selected" in words(page)
    methods = next(widget for widget in page.multiselect if widget.label.startswith("Methods"))
    methods.select(methods.options[1]).run()
    assert page.query_params["runs"] in ("1,2,3,4", ["1,2,3,4"])
    table = page.dataframe[-1].value
    assert table[["method", "seeds"]].to_numpy().tolist() == [["FedAvg", 2], ["LocalTrain", 2]]


def test_unknown_runs_in_the_address_are_reported(read_store: Store) -> None:
    assert "The runs in this link were not found" in words(opened(runs="77,78"))


@pytest.mark.slow
def test_runs_without_results_are_noted_on_the_page_and_in_the_report(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, reports = filled_store.queue.rerun([1])[0], list[tuple]()
    monkeypatch.setattr(comparison, "Comparison", lambda *given: reports.append(given))
    assert "1 run pending" in words(opened(runs=f"1,3,{again.id}"))
    assert reports[-1][-1] == ["1 run pending; results appear after the first round."]
    assert "1 run pending" in words(opened(runs=f"1,{again.id}"))


def test_archived_runs_can_be_compared_by_their_address(filled_store: Store) -> None:
    filled_store.queue.archive([1, 3])
    table = opened(runs="1,3").dataframe[-1].value
    assert table[["method", "seeds"]].to_numpy().tolist() == [["FedAvg", 1], ["LocalTrain", 1]]


def test_an_archived_experiment_can_be_compared_by_its_address(filled_store: Store) -> None:
    filled_store.experiments.archive([1])
    assert len(opened(experiment=1).dataframe[-1].value["method"]) == 4


@pytest.mark.slow
def test_runs_on_different_data_are_shown_with_a_warning_and_no_leader(filled_store: Store) -> None:
    other = DIGITS | {"name": "other clients", "algorithms": ["fedprox"], "training": {"rounds": 1}}
    other["partition"] = DIGITS["partition"] | {"classes_per_client": 2}
    store_experiment(filled_store, other)
    page = opened(runs="1,2,9,10")
    assert "The partitions differ: FedAvg (Classes per client, classes per client = 3)" in words(page)
    assert page.title[0].value == "These runs cannot be ranked"
    assert [header.value for header in page.header] == ["Accuracy by client", "All numbers"]
    assert "no clients in common" in words(opened(runs="1,2,9,10", section="clients"))
    assert "How fast, and at what cost?" in words(opened(runs="1,2,9,10", section="cost"))


def test_without_an_address_the_newest_experiment_is_compared_by_the_summaries_of_its_runs(read_store: Store) -> None:
    page = opened()
    text = words(page)
    assert "DIGITS · 10 CLIENTS · 3 CLASSES EACH · 2 SEEDS" in text
    assert "on mean accuracy" in text
    assert "Lowest 5 % = 1 of 10 clients; personalized model, last round" in text
    title = "LocalTrain is ahead of Ditto (91 % against 87 %) and FedAvg (46 %), over two seeds"
    assert page.title[0].value == unbroken(title)
    table = page.dataframe[-1].value.set_index("method")
    runs = [run for run in read_store.queue.runs() if run.label == "ditto"]
    for name, key in (("mean", "mean"), ("weighted_mean", "weighted_mean"), ("lowest", "lowest5"), ("top", "top5")):
        expected = sum((run.summary or {})["personalized"][key] for run in runs) / len(runs)
        assert table.loc["Ditto", name] == pytest.approx(100 * expected)


@pytest.mark.slow
def test_the_address_chooses_model_tail_and_round(read_store: Store) -> None:
    page = opened(experiment="1", model="global", tail="10", when="best")
    text = words(page)
    assert "Lowest 10 % = 1 of 10 clients; global model, best round, chosen on test" in text
    assert "LocalTrain has no global model." in text
    assert [button.value for button in page.segmented_control][:3] == ["global", "10", "best"]


@pytest.mark.slow
def test_switches_set_the_address_unless_at_their_default(read_store: Store) -> None:
    page = opened(experiment="1")
    page.segmented_control[0].set_value("global").run()
    assert page.query_params["model"] in ("global", ["global"])
    page.segmented_control[0].set_value("personalized").run()
    assert "model" not in page.query_params


@pytest.mark.slow
def test_all_metrics_can_be_shown_at_once(read_store: Store) -> None:
    table: pd.DataFrame = opened(experiment="1", rows="all").dataframe[-1].value
    assert len(table) == 2 * 4 + 2 * 3  # LocalTrain has no global model
    assert set(table["round"]) == {"last", "best"}


def test_clients_can_be_shown_as_a_histogram(read_store: Store) -> None:
    page = opened(experiment="1", shape="histogram")
    assert "Bins of 5 points" in words(page)
    assert "histogram" in {chart.proto.id.rpartition("-")[2] for chart in page.get("plotly_chart")}


@pytest.mark.slow
def test_rows_can_be_settings_instead_of_methods(filled_store: Store) -> None:
    store_experiment(filled_store, DIGITS | {"name": "slower", "training": {"rounds": 2, "lr": 0.01}, "seeds": [0]})
    page = opened(experiment="1,2", by="training.lr")
    assert "for η = 0.05" in words(page) and "for η = 0.01" in words(page)
    table = page.dataframe[-1].value
    assert table[["method", "pooled runs"]].to_numpy().tolist() == [["η = 0.05", 8], ["η = 0.01", 4]]


def test_different_settings_are_listed(read_store: Store) -> None:
    page = opened(experiment="1", section="settings")
    listed = page.dataframe[-1].value
    assert "Method: K" in listed["field"].tolist()
    assert "settings are equal and not shown" in words(page)


@pytest.mark.slow
def test_two_methods_are_paired_client_by_client_with_links_to_runs(read_store: Store) -> None:
    text = words(opened(experiment="1", section="clients", a="Ditto", b="FedAvg", client="3"))
    assert "better with Ditto than with FedAvg" in text and "(10 clients × 2 seeds)" in text
    assert "[Client 3 in Ditto, seed 0](/run?id=5&client=3)" in text
    assert "[Client 3 in FedAvg, seed 0](/run?id=1&client=3)" in text
    assert "3 clusters of 4, 3 and 3 clients" in text and "Rand index" not in text, "each client has its own context"
    assert "Who pays" not in text, "no dial varies"
    assert "[Open client 3 of Ditto, seed 0](/run?id=5&client=3)" in words(
        opened(experiment="1", client="3", inside="5")
    )


@pytest.mark.slow
def test_a_trade_off_is_computed_on_request_or_again_if_it_is_unreadable_and_drawn(filled_store: Store) -> None:
    filled_store.analyses.request(5, "trade_off", {})
    answer(filled_store, b"no findings")
    page = opened(experiment="1", section="cost")
    next(button for button in page.button if button.label == "Measure on other clients' data").click().run()
    analyses = filled_store.analyses.for_runs(range(1, 9), "trade_off")
    assert sorted((a.run_id, a.status) for a in analyses) == [(i, "queued") for i in range(1, 9)]
    assert all(a.params == {} for a in analyses)
    for number in range(8):
        answer(filled_store, Findings({"own": np.ones(10), "others": np.full(10, number / 10)}).to_bytes())
    page.run()
    assert "the test data of all other clients" in words(page)
    assert not [button for button in page.button if button.label.startswith("Measure")]
    of_best = opened(experiment="1", section="cost", when="best")  # other models, without findings
    assert [button for button in of_best.button if button.label.startswith("Measure")]


def answer(store: Store, found: bytes) -> None:
    """Stores what a worker found for the analysis that was requested first."""
    claimed = store.analyses.claim()
    assert claimed is not None
    file = store.artifacts.write_file(claimed.run_id, f"analysis-{claimed.kind}", 5, found)
    store.analyses.finish(claimed.id, claimed.epoch, "done", result=file)


@pytest.mark.slow
def test_generated_data_of_several_spreads_is_compared_with_true_models(empty_store: Store) -> None:
    for R in (0, 2):
        store_experiment(
            empty_store,
            {
                "name": f"R = {R}",
                "dataset": {"name": "synthetic", "num_clients": 3, "samples_per_client": 40, "R": R},
                "partition": {"name": "natural"},
                "model": {"name": "logistic", "l2": 0.01},
                "training": {"rounds": 2, "local_steps": 2, "lr": 0.1},
                "algorithms": ["local_train", "fedprox_onestage"],
            },
        )
    text = words(opened(experiment="1,2", section="settings"))
    assert "When does sharing help?" in text and "at R = 2" in text
    assert "Methods: at the exact minimizer" in words(opened(experiment="1,2", section="settings", error="statistical"))
    assert "an error of" in words(opened(experiment="1,2", section="cost", goal="error"))


def test_partitions_with_different_classes_per_client_use_the_common_test_set(empty_store: Store) -> None:
    for classes, accuracy in ((2, 0.5), (4, 0.75)):
        partition = {"name": "classes_per_client", "num_clients": 4, "classes_per_client": classes}
        store_experiment(
            empty_store,
            {
                "name": f"s = {classes}",
                "dataset": "digits",
                "partition": partition,
                "model": "mlr",
                "training": {"rounds": 1, "local_steps": 1},
                "algorithms": ["local_train", "fedavg"],
            },
            {"personalized.common_accuracy": np.full(4, accuracy)},
        )
    text = words(opened(experiment="1,2", section="settings"))
    assert "When does sharing help with MLR on Digits?" in text
    assert "Lowest error: LocalTrain at s = 2 (50), LocalTrain at s = 4 (25); fewer than three seeds" in text


def test_a_finished_experiment_takes_precedence_over_a_newer_started_one(filled_store: Store) -> None:
    queued = filled_store.experiments.create("begun", {}, [new_run(run) for run in parse_experiment(DIGITS).runs()])
    assert newest(filled_store.queue.runs()) == {1} and queued.id > 1


def test_an_address_with_unknown_values_falls_back_to_the_defaults(read_store: Store) -> None:
    page = opened(runs="1,3,x", model="neither", tail="7", a="Nobody")
    assert "personalized model, last round" in words(page)


def test_unknown_run_ids_do_not_break_the_page(read_store: Store) -> None:
    assert opened(runs="99999999999999999999").title
    assert opened(experiment="abc").title


def test_downloads_of_a_chart_omit_internal_columns(read_store: Store) -> None:
    view = View(tuple(methods_of(queries.runs(with_partition=True))))
    columns = set(low_mean_top(view, "mean", ()).table.columns)
    assert {"method", "lowest", "mean", "top", "seeds"} <= columns
    assert not columns & {"samples", "tail_samples", "other_samples", "may_be_best"}
