"""pFedMe: a round computed with numpy, its limit in lambda, and its cost."""

import numpy as np
import pytest

from engine.training.smoothness import smoothness
from tests.support import reference
from tests.support.builders import personalized, shared_model, simulation, trained
from tests.support.reference import as_matrix, batches_of
from tests.support.settings import PFEDME


def test_a_pfedme_round_follows_the_paper():
    run = trained(PFEDME | {"beta": 0.6}, rounds=1)
    start = as_matrix(run.task.initial_model())
    pairs = [reference.moreau(start, b, 0.1, 5.0, 3, 0.1) for b in batches_of(run, 1)]
    np.testing.assert_allclose(as_matrix(personalized(run)), [theta for theta, _ in pairs], atol=1e-12)
    mean = np.mean([w for _, w in pairs], axis=0)
    np.testing.assert_allclose(as_matrix(shared_model(run)), 0.4 * start + 0.6 * mean, atol=1e-12)


def test_pfedme_personalized_models_differ_from_the_global_one():
    run = trained(PFEDME)
    assert float((personalized(run)["head.weight"] - shared_model(run)["head.weight"]).abs().min()) > 0


def test_pfedme_personalized_models_approach_the_global_one_as_lambda_grows():
    def gap(lam: float) -> float:
        probe = simulation("local_train")
        lr = 1 / (smoothness(probe.task) + lam)
        run = trained(
            {"name": "pfedme", "lam": lam, "personal_lr": lr, "inner_steps": 200},
            rounds=1,
            local_steps=1,
            batch_size="full",
        )
        start = run.task.initial_model()["head.weight"]
        return float((personalized(run)["head.weight"] - start).abs().max())

    assert gap(1e4) == pytest.approx(gap(1e3) / 10, rel=0.05)
    assert gap(1e4) < 1e-3


def test_pfedme_costs_inner_steps_times_fedavg():
    costs = [[r.scalars["gradient_evaluations"] for r in simulation(a).rounds()] for a in ("fedavg", PFEDME)]
    assert costs[1] == [3 * c for c in costs[0]]
