"""PLGU-LF: limits in the radius and the personal layers, and rounds computed one client at a time."""

import math

import pytest
import torch

from tests.support.builders import assert_close, federation, personalized, shared_model, simulation, trained
from tests.support.one_client import batches_of, gradient, moved
from tests.support.perturbations import layers_of, perturbation, scores_of
from tests.support.settings import DNN, VARIED_TRAINING

DEEP = {"name": "har_mlp", "hidden": 6}  # two layers in the body
EQUAL = (6, 6, 6, 6)


@pytest.mark.parametrize("settings", VARIED_TRAINING)
def test_plgu_lf_with_all_layers_personal_is_local_training(settings):
    changed = {"model": DNN} | settings
    num_layers = 2 if changed["model"] == DNN else 1
    run = trained({"name": "plgu_lf", "D": num_layers}, **changed)
    assert_close(personalized(run), personalized(trained("local_train", **changed)), 1e-12)
    assert any("alone" in note for note in run.task.notes)


@pytest.mark.parametrize("settings", [*VARIED_TRAINING, {"local_steps": 7, "batch_size": 2}])
def test_plgu_lf_without_radius_and_personal_layers_is_unweighted_fedavg(settings):
    changed = {"model": DNN, "data": federation(EQUAL)} | settings
    run = trained({"name": "plgu_lf", "D": 0, "rho": 0}, **changed)
    assert_close(shared_model(run), shared_model(trained("fedavg", **changed)), 1e-12)


def test_plgu_lf_with_one_step_is_fedsam_with_a_share_of_rho():
    """With one layer the scores are always equal, and with any model in the first round."""
    data = federation(EQUAL)
    for model, rounds, rho in (("mlr", 3, 0.4), (DNN, 1, 0.2)):
        fedsam = trained({"name": "fedsam", "rho": rho}, data, model=model, rounds=rounds, local_steps=1)
        plgu = trained({"name": "plgu_lf", "rho": 0.4, "D": 0}, data, model=model, rounds=rounds, local_steps=1)
        assert_close(shared_model(plgu), shared_model(fedsam), 1e-12)


@pytest.mark.parametrize("order", ["algorithm", "listing"])
def test_plgu_lf_rounds_follow_the_paper(order):
    rho, p = 0.5, 3.0
    run = trained({"name": "plgu_lf", "D": 1, "rho": rho, "p": p, "order": order}, model=DEEP, rounds=3)
    w = run.task.initial_model()
    theta = [w] * 4
    for round in (1, 2, 3):
        copies = []
        for i, batches in enumerate(batches_of(run, round)):
            scores = scores_of(theta[i], w)
            personal = layers_of(w)[scores.index(max(scores))]
            own, local = {n: theta[i][n] if n in personal else w[n] for n in w}, w
            for x, y in batches:
                g = gradient(own, x, y)
                eps = perturbation(g, scores, rho, p)
                stepped = moved(own, g, 0.1)
                near = stepped if order == "listing" else own
                local = moved(local, gradient({n: near[n] + eps[n] for n in w}, x, y), 0.1)
                own = stepped
            theta[i] = own
            copies.append(local)
        w = {n: sum(c[n] for c in copies) / 4 for n in w}
    assert_close(shared_model(run), w, 1e-10)
    assert_close(personalized(run), {n: torch.stack([t[n] for t in theta]) for n in w}, 1e-10)


@pytest.mark.parametrize(("model", "requested", "personal"), [("mlr", 5, 0), (DNN, 5, 1), (DNN, 1, 1), (DNN, 2, 2)])
def test_plgu_lf_shares_at_least_one_layer_unless_all_are_personal(model, requested, personal):
    run = simulation({"name": "plgu_lf", "D": requested}, model=model)
    _, diagnostics = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    assert diagnostics.values["personal_layers"].sum(1).tolist() == [personal] * 4
    assert any(f"so D={personal} is used" in note for note in run.task.notes) == (requested != personal)


def test_plgu_lf_records_scores_of_participants_only():
    for result in list(simulation("plgu_lf", model=DNN, participation=0.5, rounds=3).rounds())[1:]:
        scores, personal = (result.arrays[f"diagnostics.{n}"] for n in ("layer_scores", "personal_layers"))
        outside = [i for i in range(4) if i not in result.cohort]
        assert scores.shape == personal.shape == (4, 2)
        assert scores[result.cohort].sum(1) == pytest.approx([1, 1]) and personal[result.cohort].sum(1).tolist() == [
            1,
            1,
        ]
        assert math.isnan(scores[outside].max()) and math.isnan(personal[outside].max())
