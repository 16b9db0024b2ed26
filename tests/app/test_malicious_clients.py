"""Figures over clients leave malicious clients out, as the engine's summaries do."""

import pytest

from app.data import queries
from storage import Store
from tests.app.samples import DIGITS, store_experiment

ATTACKED = DIGITS | {
    "algorithms": [{"name": "fedavg"}],
    "seeds": [0],
    "partition": DIGITS["partition"] | {"val_fraction": 0.2},
    "training": DIGITS["training"] | {"rounds": 1},
}


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
