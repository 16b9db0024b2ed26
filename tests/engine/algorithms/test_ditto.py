"""Ditto: FedAvg, and local models that are pulled toward its global model."""

import numpy as np

from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    personalized,
    shared_model,
    trained,
    with_newcomers,
)
from tests.support.newcomers import unseen_models
from tests.support.reference import as_matrix, batches_of


def test_ditto_without_pull_is_local_training():
    assert_equal(personalized(trained({"name": "ditto", "lam": 0})), personalized(trained("local_train")))


def test_ditto_global_model_is_that_of_fedavg():
    assert_equal(shared_model(trained({"name": "ditto", "lam": 3.0})), shared_model(trained("fedavg")))


def test_ditto_pulls_towards_the_model_received_this_round():
    run = trained({"name": "ditto", "lam": 0.8}, rounds=2)
    shared = as_matrix(run.task.initial_model())
    v = [shared] * len(SIZES)
    for round in (1, 2):
        given = batches_of(run, round)
        v = [reference.sgd(own, b, 0.1, 0.8, shared) for own, b in zip(v, given, strict=True)]
        shared = np.average([reference.sgd(shared, b, 0.1) for b in given], axis=0, weights=SIZES)
    np.testing.assert_allclose(as_matrix(personalized(run)), v, atol=1e-12)


def test_a_strong_pull_moves_a_newcomer_of_ditto_to_the_global_model():
    run = trained({"name": "ditto", "lam": 1e4, "personal_lr": 1e-4, "personal_steps": 30}, with_newcomers())
    assert_close(unseen_models(run), {n: p.expand(3, *p.shape) for n, p in shared_model(run).items()}, 1e-3)
