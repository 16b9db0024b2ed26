"""Summaries over clients leave malicious clients out, as the engine does; charts of single clients draw them hollow."""

import numpy as np
import pytest

from app.charts import client_heat_map, client_map
from app.compare import comparability
from app.data import queries
from app.data.comparison import methods_of
from app.inside import clients
from app.inside.view import RunView
from app.live import live_feed
from storage import RunRecord, Store
from tests.app.frames import run_record
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment

ATTACKED = DIGITS | {
    "algorithms": [{"name": "fedavg"}],
    "seeds": [0],
    "partition": DIGITS["partition"] | {"val_fraction": 0.2},
    "training": DIGITS["training"] | {"rounds": 1},
}


@pytest.fixture
def run(empty_store: Store) -> RunRecord:
    """FedAvg with 2 of 10 clients malicious."""
    found = store_experiment(empty_store, ATTACKED | {"attack": {"name": "sign_flip", "share": 0.2, "scale": 5}})
    (run,) = empty_store.queue.runs(experiment_ids=[found.id])
    return run


@pytest.mark.parametrize("table", [queries.final_clients, queries.validation_clients])
def test_malicious_clients_are_in_no_figure_over_clients(table, empty_store: Store) -> None:
    found = store_experiment(empty_store, ATTACKED | {"attack": {"name": "sign_flip", "share": 0.2}})
    (run,) = empty_store.queue.runs(experiment_ids=[found.id])
    benign = [i for i, is_malicious in enumerate(run.partition["malicious"]) if not is_malicious]
    assert len(benign) == 8
    assert table([run])["client"].tolist() == benign


def test_the_mean_of_the_figures_is_that_of_the_summary(empty_store: Store) -> None:
    found = store_experiment(empty_store, ATTACKED | {"attack": {"name": "sign_flip", "share": 0.2}})
    (run,) = empty_store.queue.runs(experiment_ids=[found.id])
    assert queries.final_clients([run])["accuracy"].mean() == pytest.approx(run.summary["personalized"]["mean"])


def test_every_client_is_there_for_charts_of_single_clients(run: RunRecord) -> None:
    found = queries.all_clients([run])
    assert found["client"].tolist() == list(range(10))
    assert found["is_malicious"].tolist() == list(run.partition["malicious"])


def test_means_over_clients_leave_malicious_ones_out(run: RunRecord) -> None:
    losses = queries.client_series(run.id, "personalized.loss")[1]
    benign = ~np.array(run.partition["malicious"])
    assert queries.final_means([run], "personalized.loss")[run.id] == pytest.approx(losses[-1, benign].mean())
    series = queries.mean_series([run], ["personalized.loss"])["value"]
    assert series.tolist() == pytest.approx(losses[:, benign].mean(axis=1).tolist())


def test_live_shows_benign_clients(run: RunRecord, empty_store: Store) -> None:
    curve = live_feed.whole_curve(empty_store, run)
    losses = queries.client_series(run.id, "personalized.loss")[1][-1]
    assert len(curve.clients) == 8
    assert curve.points["loss"][-1] == pytest.approx(losses[~np.array(run.partition["malicious"])].mean(), rel=1e-5)
    assert "Lowest 5 % = 1 of 8 benign clients" in words(open_page("live", runs=str(run.id)))


def test_inside_a_run_counts_benign_clients_and_marks_the_others(run: RunRecord) -> None:
    text = words(open_page("run", id=str(run.id), client=str(np.flatnonzero(run.partition["malicious"])[0])))
    assert "8 benign clients" in text and "Hollow circle: malicious, left out of summaries." in text
    assert "(malicious)" in text


def test_rows_of_malicious_clients_have_a_hollow_mark() -> None:
    accuracy = np.array([[0.1, 0.2, 0.3], [0.5, 0.9, 0.2]])
    cells = client_heat_map.data(np.array([0, 1]), accuracy)
    marks = client_heat_map.figure(cells, 1, malicious=[2]).data[-1]
    assert marks.marker.symbol == "circle-open" and marks.y.tolist() == [0] and "client 2" in marks.hovertext[0]
    assert client_heat_map.finding(accuracy[-1], malicious=[2]) == (
        "Client 0 falls behind: 50.00 % against a mean of 70.00 % over 2 benign clients."
    )


def test_models_of_malicious_clients_are_hollow_on_the_map() -> None:
    arrays = {"rounds": np.array([1]), "clients": np.zeros((1, 3, 2)), "explained": [0.6, 0.4], "shown": [0.9]}
    table = client_map.data(arrays, malicious=[1])
    drawn = client_map.figure(table, client_map.shared(arrays, table), arrays, by="cluster", at=1, trails=False)
    assert list(drawn.data[1].marker.symbol) == ["circle", "circle-open", "circle"]


def test_compare_says_how_many_clients_its_summaries_are_about() -> None:
    attacked = run_record(1, partition={"malicious": [True, False, False, False]})
    clean = run_record(2, "fedavg", partition={"malicious": None})
    assert "1 of 4 clients is malicious: summaries are of 3 benign clients." in comparability.notes(
        methods_of([attacked])
    )
    assert "1 of 4 clients is malicious under Ditto: summaries are of 3 benign clients." in comparability.notes(
        methods_of([attacked, clean])
    )


def test_the_table_of_clients_says_who_is_malicious(run: RunRecord) -> None:
    view = RunView(queries.runs(run_ids=[run.id], with_partition=True)[0])
    rows = clients.client_rows(view.partition, view.accuracy()[1][-1], {})
    assert rows["malicious"].tolist() == list(run.partition["malicious"])
