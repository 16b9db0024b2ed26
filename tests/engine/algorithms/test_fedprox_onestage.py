"""One-stage FedProx: its limits in lambda, its minimizer, and the settings from theory."""

import numpy as np
import pytest
import torch

from engine.config.schema import RunConfig
from engine.core.errors import Unsupported
from engine.simulation.simulate import Simulation
from engine.training import heterogeneity, statistical_error
from engine.training.smoothness import smoothness
from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    config,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
    unchecked_simulation,
)
from tests.support.reference import as_matrix, batches_of


def test_onestage_with_zero_lambda_is_local_training():
    assert_equal(personalized(trained({"name": "fedprox_onestage", "lam": 0})), personalized(trained("local_train")))


def test_onestage_global_model_is_the_mean_of_the_local_ones():
    run = trained({"name": "fedprox_onestage", "lam": 0.5}, rounds=3)
    assert_close(shared_model(run), {n: p.mean(0) for n, p in personalized(run).items()}, 1e-12)


def test_onestage_with_gamma_one_over_lambda_is_gamma_auto():
    lam = 0.5
    auto = trained({"name": "fedprox_onestage", "lam": lam})
    number = trained({"name": "fedprox_onestage", "lam": lam, "gamma": 1 / lam})
    assert_close(shared_model(auto), shared_model(number), 1e-12)


def test_onestage_round_starts_from_the_clients_last_model():
    lam, gamma = 0.5, 0.3
    run = trained({"name": "fedprox_onestage", "lam": lam, "gamma": gamma}, rounds=2)
    start = as_matrix(run.task.initial_model())
    w, shared = [start] * len(SIZES), start
    for round in (1, 2):
        w = [reference.sgd(own, b, 0.1, lam, shared) for own, b in zip(w, batches_of(run, round), strict=True)]
        shared = shared - gamma * np.mean([lam * (shared - own) for own in w], axis=0)
    np.testing.assert_allclose(as_matrix(personalized(run)), w, atol=1e-12)
    np.testing.assert_allclose(as_matrix(shared_model(run)), shared, atol=1e-12)


@pytest.mark.slow
def test_onestage_converges_to_the_joint_minimizer():
    lam = 0.2
    run = trained(
        {"name": "fedprox_onestage", "lam": lam, "local_lr": "theory"},
        model={"name": "mlr", "l2": 0.05},
        rounds=60,
        local_steps=30,
        batch_size="full",
    )
    solved = statistical_error.solve(run.task, lam)
    width = personalized(run)["head.weight"][0].numel()
    torch.testing.assert_close(solved.local[:, :width], personalized(run)["head.weight"].flatten(1), atol=1e-6, rtol=0)
    torch.testing.assert_close(solved.shared[:width], shared_model(run)["head.weight"].flatten(), atol=1e-6, rtol=0)


@pytest.mark.slow
def test_onestage_models_approach_the_global_one_as_lambda_grows():
    def spread(lam: float) -> float:
        run = trained(
            {"name": "fedprox_onestage", "lam": lam, "local_lr": "theory"},
            model={"name": "mlr", "l2": 0.01},
            rounds=10,
            local_steps=40,
            batch_size="full",
        )
        difference = personalized(run)["head.weight"] - shared_model(run)["head.weight"]
        return float(difference.flatten(1).norm(dim=1).max())

    first = spread(10)
    assert spread(100) == pytest.approx(first / 10, rel=0.2)
    assert spread(1000) == pytest.approx(first / 100, rel=0.2)


def test_adaptive_lambda_follows_the_paper():
    run = simulation({"name": "fedprox_onestage", "rho": 2.0}, lr=1e-3)
    n = run.task.num_pooled_samples / run.task.num_clients
    adaptive = run.algorithm._adaptive
    assert adaptive(run.task, 0.5 * n**-0.5) == pytest.approx(2 / (n**0.5 * 0.5 * n**-0.5))
    assert adaptive(run.task, 3.0) == pytest.approx(4 / (n * 9))
    assert adaptive(run.task, 0.0) == 1000 and "capped" in run.task.notes[-1]


def test_gradients_and_models_of_the_heterogeneity_estimate_are_counted():
    estimated, given = (
        simulation({"name": "fedprox_onestage", "estimate_steps": 5}),
        simulation({"name": "fedprox_onestage", "lam": 1.0}),
    )
    rounds = [list(run.rounds()) for run in (estimated, given)]
    costs = [[r.scalars["gradient_evaluations"] for r in run] for run in rounds]
    assert costs[0][1] > costs[1][1] and costs[0][2] == costs[1][2]
    for name in ("bytes_up", "bytes_down"):
        first, later = ([run[at].scalars[name] for run in rounds] for at in (1, 2))
        assert first == [2 * first[1], first[1]] and later == [first[1]] * 2
    assert any("estimate" in note for note in estimated.task.notes)


def test_one_stage_fedprox_uses_the_same_estimate():
    run = trained({"name": "fedprox_onestage", "estimate_steps": 12})
    assert run.state.facts["R_h"] == heterogeneity.estimate(run.task, steps=12)[0]


@pytest.mark.parametrize("setting", ["gamma", "local_lr", "inner_steps"])
def test_theory_settings_refuse_a_loss_without_curvature(setting):
    with pytest.raises(Exception, match="l2"):
        simulation({"name": "fedprox_onestage", "lam": 1.0, setting: "theory"})
    with pytest.raises(Exception, match="linear"):
        simulation({"name": "fedprox_onestage", "lam": 1.0, setting: "theory"}, model="dnn")


def test_theory_settings_refuse_zero_divisors_and_steps_that_diverge():
    model, entry = {"name": "mlr", "l2": 0.01}, {"name": "fedprox_onestage", "inner_steps": "theory"}
    with pytest.raises(Unsupported, match="lam, which is 0"):
        simulation(entry | {"lam": 0}, model=model)
    with pytest.raises(Unsupported, match="local_lr below"):
        simulation(entry | {"lam": 30.0, "gamma": 0.01, "local_lr": 0.1}, model=model)


def test_a_diverging_estimate_ends_the_run_in_round_one():
    method = {"name": "fedprox_onestage", "estimate_steps": 60}
    run = unchecked_simulation(method, model="dnn", training={"lr": 1e300}, rounds=5)
    results = list(run.rounds())
    assert results[-1].round == 1 and results[-1].diverged


def test_theory_gamma_is_that_of_corollary_1():
    run = simulation({"name": "fedprox_onestage", "lam": 0.4, "gamma": "theory"}, model={"name": "mlr", "l2": 0.1})
    L = smoothness(run.task)
    assert run.algorithm._gamma(run.task, 0.4) == pytest.approx((0.4 + L) / (2 * 0.4 * L))


def test_the_estimate_takes_the_time_of_all_clients_and_a_round_that_of_its_cohort():
    raw = config({"name": "fedprox_onestage", "estimate_steps": 5}, participation=0.5).to_dict()
    run = Simulation(RunConfig.from_dict(raw | {"system": {"compute_s": 1.0}}), data=federation())
    rounds, seconds = list(run.rounds()), []
    for cohort in (run.task.everyone(stream="estimate", steps=5), run.task.cohort(1)):
        of_each = np.zeros(4)
        of_each[list(cohort.client_ids)] = cohort.plan.samples
        seconds.append(of_each / rounds[0].arrays["diagnostics.speed"])
    expected = max(seconds[0].max(), (seconds[0] + seconds[1])[rounds[1].cohort].max())
    assert rounds[1].scalars["diagnostics.simulated_s"] == pytest.approx(expected)
