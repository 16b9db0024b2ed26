"""Accuracy of clients' models beyond their own data, as Compare averages it over clients."""

import numpy as np
import pytest

from app.compare.generalization import KIND, OTHERS, elsewhere
from app.compare.view import View
from app.data import queries
from app.data.comparison import methods_of
from engine.core.findings import Findings
from storage import Store
from tests.app.samples import store_experiment
from tests.app.test_inside_landscape import put
from tests.app.test_malicious_clients import ATTACKED


def test_models_of_malicious_clients_are_left_out_of_the_mean(empty_store: Store) -> None:
    store_experiment(empty_store, ATTACKED | {"attack": {"name": "sign_flip", "share": 0.2}})
    (run,) = queries.runs(with_partition=True)
    malicious = np.array((run.partition or {})["malicious"])
    assert malicious.sum() == 2
    others = np.where(malicious, 0.0, 0.5)
    put(empty_store, run.id, KIND, {}, Findings({"own": np.ones(10), "others": others}))
    found, of = elsewhere(View(tuple(methods_of([run]))))
    assert of == OTHERS and found.to_dict() == {run.id: pytest.approx(0.5)}
