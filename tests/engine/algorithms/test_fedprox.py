"""FedProx: FedAvg without its pull, and a round computed with numpy."""

import numpy as np

from tests.support import reference
from tests.support.builders import SIZES, assert_equal, shared_model, trained
from tests.support.reference import as_matrix, batches_of


def test_fedprox_with_zero_mu_is_fedavg():
    assert_equal(shared_model(trained({"name": "fedprox", "mu": 0})), shared_model(trained("fedavg")))


def test_a_fedprox_round_follows_the_paper():
    run = trained({"name": "fedprox", "mu": 0.7}, rounds=1)
    start = as_matrix(run.task.initial_model())
    copies = [reference.sgd(start, b, 0.1, 0.7, start) for b in batches_of(run, 1)]
    np.testing.assert_allclose(as_matrix(shared_model(run)), np.average(copies, axis=0, weights=SIZES), atol=1e-12)
