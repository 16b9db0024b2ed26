"""What the papers imply: exact identities between methods, and rounds computed independently with numpy."""

import numpy as np
import pytest
import torch

from engine import truth
from engine.backends import gram
from engine.contexts import cluster, coordinates, transitions
from engine.errors import Unsupported
from engine.registry import ALGORITHMS
from engine.smoothness import smoothness
from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    beyond,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
)
from tests.support.reference import as_matrix, batches_of

PFEDME = {"name": "pfedme", "lam": 5.0, "inner_steps": 3, "personal_lr": 0.1}
CGPFL = PFEDME | {"name": "cgpfl"}


# --- LocalTrain and FedAvg


def test_local_train_is_plain_sgd_on_each_client():
    run = trained("local_train", rounds=2)
    start = as_matrix(run.task.initial_model())
    for i, (first, second) in enumerate(zip(batches_of(run, 1), batches_of(run, 2), strict=True)):
        expected = reference.sgd(reference.sgd(start, first, 0.1), second, 0.1)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], expected, atol=1e-12)


def test_fedavg_with_one_client_is_plain_sgd():
    data = federation(sizes=(8,))
    assert_equal(
        {n: p[None] for n, p in shared_model(trained("fedavg", data)).items()},
        personalized(trained("local_train", data)),
    )


def test_fedavg_with_one_full_step_is_a_gradient_step_on_the_pooled_loss():
    run = trained("fedavg", rounds=1, local_steps=1, batch_size="full", model={"name": "mlr", "init": "zeros"})
    data = run.task.data.train
    pooled = reference.gradient(np.zeros((3, 6)), data.x.numpy(), data.y.numpy())
    np.testing.assert_allclose(as_matrix(shared_model(run)), -0.1 * pooled, atol=1e-12)


def test_fedavg_weights_clients_by_their_training_samples():
    run = trained("fedavg", rounds=1)
    copies = [reference.sgd(as_matrix(run.task.initial_model()), b, 0.1) for b in batches_of(run, 1)]
    np.testing.assert_allclose(as_matrix(shared_model(run)), np.average(copies, axis=0, weights=SIZES), atol=1e-12)


def test_fedavg_finetuned_starts_from_the_global_model_and_leaves_it_alone():
    tuned, plain = trained({"name": "fedavg", "finetune_steps": 2}), trained("fedavg")
    assert_equal(shared_model(tuned), shared_model(plain))
    assert not torch.equal(personalized(tuned)["head.weight"], personalized(plain)["head.weight"])


# --- FedProx


def test_fedprox_with_zero_mu_is_fedavg():
    assert_equal(shared_model(trained({"name": "fedprox", "mu": 0})), shared_model(trained("fedavg")))


def test_fedprox_round_as_the_paper_writes_it():
    run = trained({"name": "fedprox", "mu": 0.7}, rounds=1)
    start = as_matrix(run.task.initial_model())
    copies = [reference.sgd(start, b, 0.1, 0.7, start) for b in batches_of(run, 1)]
    np.testing.assert_allclose(as_matrix(shared_model(run)), np.average(copies, axis=0, weights=SIZES), atol=1e-12)


# --- One-stage FedProx


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


def test_onestage_round_starts_from_the_clients_own_last_model():
    lam, gamma = 0.5, 0.3
    run = trained({"name": "fedprox_onestage", "lam": lam, "gamma": gamma}, rounds=2)
    start = as_matrix(run.task.initial_model())
    w, shared = [start] * len(SIZES), start
    for round in (1, 2):
        w = [reference.sgd(own, b, 0.1, lam, shared) for own, b in zip(w, batches_of(run, round), strict=True)]
        shared = shared - gamma * np.mean([lam * (shared - own) for own in w], axis=0)
    np.testing.assert_allclose(as_matrix(personalized(run)), w, atol=1e-12)
    np.testing.assert_allclose(as_matrix(shared_model(run)), shared, atol=1e-12)


def test_onestage_converges_to_the_joint_minimiser():
    lam = 0.2
    run = trained(
        {"name": "fedprox_onestage", "lam": lam, "local_lr": "theory"},
        model={"name": "mlr", "l2": 0.05}, rounds=60, local_steps=30, batch_size="full",
    )  # fmt: skip
    solved = truth.solve(run.task, lam)
    width = personalized(run)["head.weight"][0].numel()
    torch.testing.assert_close(solved.local[:, :width], personalized(run)["head.weight"].flatten(1), atol=1e-6, rtol=0)
    torch.testing.assert_close(solved.shared[:width], shared_model(run)["head.weight"].flatten(), atol=1e-6, rtol=0)


def test_joint_minimiser_has_zero_gradient():
    run, lam = simulation("local_train", model={"name": "mlr", "l2": 0.05}), 0.3
    solved = truth.solve(run.task, lam)
    for i in range(run.task.num_clients):
        x, y = run.task.data.train.of_client(i)
        own = solved.local[i]
        W = np.c_[own[:15].view(3, 5).numpy(), own[15:].numpy()]
        slope = reference.gradient(W, x.numpy(), y.numpy()) + 0.05 * np.c_[W[:, :5], np.zeros(3)]
        pull = lam * (own - solved.shared)
        np.testing.assert_allclose(slope, -np.c_[pull[:15].view(3, 5).numpy(), pull[15:].numpy()], atol=1e-8)
    torch.testing.assert_close(solved.shared, solved.local.mean(0))


def test_onestage_models_approach_the_global_one_as_lambda_grows():
    def spread(lam: float) -> float:
        run = trained({"name": "fedprox_onestage", "lam": lam, "local_lr": "theory"},
                      model={"name": "mlr", "l2": 0.01}, rounds=20, local_steps=60, batch_size="full")  # fmt: skip
        difference = personalized(run)["head.weight"] - shared_model(run)["head.weight"]
        return float(difference.flatten(1).norm(dim=1).max())

    assert spread(100) == pytest.approx(spread(10) / 10, rel=0.2)
    assert spread(1000) == pytest.approx(spread(10) / 100, rel=0.2)


def test_adaptive_lambda_follows_the_document():
    run = simulation({"name": "fedprox_onestage", "rho": 2.0}, lr=1e-3)
    n = run.task.num_pooled_samples / run.task.num_clients
    adaptive = run.algorithm._adaptive
    assert adaptive(run.task, 0.5 * n**-0.5) == pytest.approx(2 / (n**0.5 * 0.5 * n**-0.5))
    assert adaptive(run.task, 3.0) == pytest.approx(4 / (n * 9))
    assert adaptive(run.task, 0.0) == 1000 and "capped" in run.task.notes[-1]


def test_estimating_heterogeneity_is_counted_in_the_gradients():
    estimated, given = (
        simulation({"name": "fedprox_onestage", "estimate_steps": 5}),
        simulation({"name": "fedprox_onestage", "lam": 1.0}),
    )
    costs = [[r.scalars["gradient_evaluations"] for r in run.rounds()] for run in (estimated, given)]
    assert costs[0][1] > costs[1][1] and costs[0][2] == costs[1][2]
    assert any("estimate" in note for note in estimated.task.notes)


@pytest.mark.parametrize("setting", ["gamma", "local_lr", "inner_steps"])
def test_theory_settings_refuse_a_loss_without_curvature(setting):
    with pytest.raises(Exception, match="l2"):
        simulation({"name": "fedprox_onestage", "lam": 1.0, setting: "theory"})
    with pytest.raises(Exception, match="linear"):
        simulation({"name": "fedprox_onestage", "lam": 1.0, setting: "theory"}, model="dnn")


def test_theory_steps_refuse_what_they_divide_by_and_steps_that_do_not_contract():
    model, entry = {"name": "mlr", "l2": 0.01}, {"name": "fedprox_onestage", "inner_steps": "theory"}
    with pytest.raises(Unsupported, match="lam, which is 0"):
        simulation(entry | {"lam": 0}, model=model)
    with pytest.raises(Unsupported, match="local_lr below"):
        simulation(entry | {"lam": 30.0, "gamma": 0.01, "local_lr": 0.1}, model=model)


def test_an_estimate_that_diverges_ends_the_run_in_round_one():
    method = {"name": "fedprox_onestage", "estimate_steps": 60}
    run = beyond(method, model="dnn", training={"lr": 1e300}, rounds=5)
    results = list(run.rounds())
    assert results[-1].round == 1 and results[-1].diverged


def test_clients_with_one_truth_have_no_heterogeneity():
    assert truth.heterogeneity(torch.full((10, 3), 0.1, dtype=torch.float64)) == 0.0


def test_theory_gamma_is_the_one_of_corollary_1():
    run = simulation({"name": "fedprox_onestage", "lam": 0.4, "gamma": "theory"}, model={"name": "mlr", "l2": 0.1})
    L = smoothness(run.task)
    assert run.algorithm._gamma(run.task, 0.4) == pytest.approx((0.4 + L) / (2 * 0.4 * L))


def test_smoothness_is_the_largest_curvature_over_clients():
    run = simulation("local_train", model={"name": "mlr", "l2": 0.1})
    largest = 0.0
    for i in range(run.task.num_clients):
        x = run.task.data.train.of_client(i)[0].numpy()
        x = np.c_[x, np.ones(len(x))]
        largest = max(largest, np.linalg.eigvalsh(x.T @ x / len(x))[-1])
    assert smoothness(run.task) == pytest.approx(largest / 2 + 0.1, rel=1e-4)


# --- pFedMe


def test_pfedme_round_as_the_paper_writes_it():
    run = trained(PFEDME | {"beta": 0.6}, rounds=1)
    start = as_matrix(run.task.initial_model())
    pairs = [reference.moreau(start, b, 0.1, 5.0, 3, 0.1) for b in batches_of(run, 1)]
    np.testing.assert_allclose(as_matrix(personalized(run)), [theta for theta, _ in pairs], atol=1e-12)
    mean = np.mean([w for _, w in pairs], axis=0)
    np.testing.assert_allclose(as_matrix(shared_model(run)), 0.4 * start + 0.6 * mean, atol=1e-12)


def test_pfedme_personalized_models_are_not_the_global_one():
    run = trained(PFEDME)
    assert float((personalized(run)["head.weight"] - shared_model(run)["head.weight"]).abs().min()) > 0


def test_pfedme_personalized_models_approach_the_global_one_as_lambda_grows():
    def gap(lam: float) -> float:
        probe = simulation("local_train")
        lr = 1 / (smoothness(probe.task) + lam)
        run = trained({"name": "pfedme", "lam": lam, "personal_lr": lr, "inner_steps": 200}, rounds=1, local_steps=1,
                      batch_size="full")  # fmt: skip
        start = run.task.initial_model()["head.weight"]
        return float((personalized(run)["head.weight"] - start).abs().max())

    assert gap(1e4) == pytest.approx(gap(1e3) / 10, rel=0.05)
    assert gap(1e4) < 1e-3


def test_pfedme_costs_inner_steps_times_fedavg():
    costs = [[r.scalars["gradient_evaluations"] for r in simulation(a).rounds()] for a in ("fedavg", PFEDME)]
    assert costs[1] == [3 * c for c in costs[0]]


# --- CGPFL


def test_cgpfl_with_one_context_is_pfedme_exactly():
    one, pfedme = trained(CGPFL | {"K": 1, "alpha": 0.7}, rounds=3), trained(PFEDME | {"beta": 0.7}, rounds=3)
    assert_equal(personalized(one), personalized(pfedme))
    for n, p in shared_model(one).items():
        assert torch.equal(p[0], shared_model(pfedme)[n])


def test_cgpfl_with_a_context_for_each_client_is_pfedme_alone():
    data = federation()
    run = trained(CGPFL | {"K": len(SIZES), "alpha": 1.0}, data, rounds=3)
    contexts = shared_model(run)["head.weight"]
    for i in range(len(SIZES)):
        start, theta = as_matrix(run.task.initial_model()), None
        for round in (1, 2, 3):
            theta, start = reference.moreau(start, batches_of(run, round)[i], 0.1, 5.0, 3, 0.1)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], theta, atol=1e-10)
        np.testing.assert_allclose(contexts[i].numpy(), start[:, :5], atol=1e-10)


def test_cgpfl_beta_is_the_documents_step():
    beta = 0.5
    number = trained(CGPFL | {"K": 2, "beta": beta})
    auto = trained(CGPFL | {"K": 2}, lr=beta * 2 / len(SIZES) / 5.0)
    assert_close(personalized(number), personalized(auto), 1e-12)


def test_renumbering_clients_permutes_cgpfl():
    data, order = federation(sizes=(6, 6, 6, 6)), [2, 0, 3, 1]
    x = data.train.x.view(4, 6, 5).clone()
    x[:2] += 5  # two well separated contexts
    x[2:] -= 5
    changed = {}
    for name, rows in (("as is", [0, 1, 2, 3]), ("renumbered", order)):
        one = federation(sizes=(6, 6, 6, 6))
        one.train.x.copy_(x[rows].flatten(0, 1))
        one.train.y.copy_(data.train.y.view(4, 6)[rows].flatten())
        changed[name] = trained(CGPFL | {"K": 2}, one, batch_size="full", rounds=3)
    assert_close({n: p[order] for n, p in personalized(changed["as is"]).items()}, personalized(changed["renumbered"]))
    a, b = changed["as is"].state.assigned[order].tolist(), changed["renumbered"].state.assigned.tolist()
    assert len(set(zip(a, b, strict=True))) == len(set(a)) == 2


def test_equal_models_have_equal_coordinates_and_keep_their_distances():
    generator = torch.Generator().manual_seed(0)
    models = torch.randn(4, 50, generator=generator, dtype=torch.float64)[torch.tensor([0, 1, 0, 2, 3, 1, 0])]
    points = coordinates({"w": models})
    assert len(np.unique(points, axis=0)) == 4
    assert cluster(points, 6, 0).labels.max() == 3
    np.testing.assert_allclose(np.linalg.norm(points[0] - points[3]), (models[0] - models[3]).norm())


def test_proximal_steps_on_logits_are_left_where_they_do_not_pay_or_overflow():
    backend = simulation("fedavg").task.backend
    assert gram.applies(backend, simulation("fedavg").config.training, batch_size=30, steps=5)
    assert not gram.applies(backend, simulation("fedavg").config.training, batch_size=31, steps=5)
    wild = PFEDME | {"lam": 220.0, "inner_steps": 400, "personal_lr": 0.05}
    assert list(simulation(wild).rounds())[-1].diverged


def test_transitions_say_where_the_members_of_a_context_come_from():
    before, after = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert transitions(before, after).tolist() == [[1.0, 0.5], [0.0, 0.5]]


def test_cgpfl_keeps_the_models_of_contexts_beyond_the_number_of_participants():
    run = trained(CGPFL | {"K": 4}, rounds=1, participation=0.5)
    start = run.task.initial_model()["head.weight"]
    participants = run.task.cohort(1).clients
    used = set(run.state.assigned[participants].tolist())
    assert len(used) == 2 and all(
        torch.equal(run.state.contexts["head.weight"][k], start) for k in set(range(4)) - used
    )
    assert len(trained(CGPFL | {"K": 7}).state.contexts["head.weight"]) == len(SIZES)


def test_cgpfl_heur_is_cgpfl_with_the_number_it_chose():
    for mu in (0.0, 1.0, 1e6, "auto"):
        heur = trained(PFEDME | {"name": "cgpfl_heur", "mu": mu}, rounds=3)
        fixed = trained(CGPFL | {"K": heur.state.K_hat}, rounds=3)
        assert_equal(personalized(heur), personalized(fixed))
        assert heur.state.assigned.tolist() == fixed.state.assigned.tolist()


def test_cgpfl_heur_weighs_capacity_against_spread():
    def chosen(mu: float) -> int:
        return trained(PFEDME | {"name": "cgpfl_heur", "mu": mu}, rounds=1).state.K_hat

    assert chosen(0.0) == 1
    assert chosen(1e6) == len(SIZES) // 2


def test_cgpfl_heur_records_both_terms_for_every_number_of_contexts():
    results = list(simulation(PFEDME | {"name": "cgpfl_heur", "mu": 3.0}).rounds())
    capacity, cost = results[1].arrays["diagnostics.capacity"], results[1].arrays["diagnostics.cost"]
    m, d = sum(SIZES), min(18, sum(SIZES))
    np.testing.assert_allclose(capacity, [np.sqrt(d * k / m * np.log(np.e * m / d)) for k in (1, 2)])
    assert cost[0] > cost[1] and results[1].scalars["diagnostics.d_eff"] == d
    assert results[1].scalars["diagnostics.K_hat"] == 1 + np.argmin(capacity + 3.0 * cost)
    assert "diagnostics.cost" not in results[2].arrays


# --- Ditto


@pytest.mark.parametrize(
    ("method", "same"), [({"name": "ditto", "lam": 0}, "local_train"), ({"name": "fedprox", "mu": 0}, "fedavg")]
)
def test_a_method_without_its_pull_says_what_it_is_then(method, same):
    assert any(same in note for note in simulation(method).task.notes)


def test_ditto_without_pull_is_local_training():
    assert_equal(personalized(trained({"name": "ditto", "lam": 0})), personalized(trained("local_train")))


def test_ditto_global_model_is_fedavgs_exactly():
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


def test_the_first_eight_methods_are_registered():
    assert {"local_train", "fedavg", "fedprox", "fedprox_onestage", "pfedme", "cgpfl", "cgpfl_heur", "ditto"} <= set(
        ALGORITHMS.names()
    )
