"""Accuracy of clients' models beyond their own data, as Compare averages it over clients."""

from typing import Any

import numpy as np
import pytest

from app.compare.comparability import notes
from app.compare.generalization import KIND, OTHERS, elsewhere
from app.compare.view import View
from app.data import queries
from app.data.comparison import methods_of
from engine.core.findings import Findings
from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.app.test_inside_landscape import put
from tests.app.test_malicious_clients import ATTACKED

SHORT: dict[str, Any] = DIGITS | {"algorithms": ["fedavg"], "training": {"rounds": 1, "local_steps": 1}, "seeds": [0]}


def test_models_of_malicious_clients_are_left_out_of_the_mean(empty_store: Store) -> None:
    store_experiment(empty_store, ATTACKED | {"attack": {"name": "sign_flip", "share": 0.2}})
    (run,) = queries.runs(with_partition=True)
    malicious = np.array((run.partition or {})["malicious"])
    assert malicious.sum() == 2
    others = np.where(malicious, 0.0, 0.5)
    put(empty_store, run.id, KIND, {}, Findings({"own": np.ones(10), "others": others}))
    found, of = elsewhere(View(tuple(methods_of([run]))))
    assert of == OTHERS and found.to_dict() == {run.id: pytest.approx(0.5)}


def test_models_of_clients_that_are_not_evaluated_are_left_out_of_the_mean(empty_store: Store) -> None:
    store_experiment(empty_store, SHORT | {"name": "all"})
    store_experiment(empty_store, SHORT | {"name": "sample", "evaluation": {"clients": 3}})
    everyone, sampled = sorted(queries.runs(with_partition=True), key=lambda run: run.id)
    evaluated = queries.final_clients([sampled])["client"].to_numpy(int)
    assert len(evaluated) == 3
    others = np.where(np.isin(np.arange(10), evaluated), 0.5, 0.0)
    for run in (everyone, sampled):
        put(empty_store, run.id, KIND, {}, Findings({"own": np.ones(10), "others": others}))
    methods = tuple(methods_of([everyone, sampled]))
    found, _ = elsewhere(View(methods))
    assert found.to_dict() == {everyone.id: pytest.approx(0.15), sampled.id: pytest.approx(0.5)}
    assert "The evaluated clients differ: FedAvg · all (all); FedAvg · sample (a sample of 3)." in " ".join(
        notes(methods)
    )
