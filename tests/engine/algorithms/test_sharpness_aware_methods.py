"""FedSAM, PLGU-LF and PLGU-GRep: costs, recorded losses, notes and newcomers."""

import pytest
import torch

from tests.support.builders import assert_equal, simulation, trained
from tests.support.one_client import gradient, loss, moved
from tests.support.perturbations import perturbation
from tests.support.settings import DNN


def test_sharpness_aware_steps_cost_two_gradients():
    spent = {
        name: list(simulation(name, model=DNN, participation=0.5).rounds())[1].scalars["gradient_evaluations"]
        for name in ("fedavg", "fedsam", "plgu_lf")
    }
    assert spent["fedsam"] == spent["plgu_lf"] == 2 * spent["fedavg"]


@pytest.mark.parametrize(
    ("entry", "steps"),
    [
        ({"name": "fedsam"}, ["", ""]),
        ({"name": "plgu_lf"}, ["", ""]),
        ({"name": "plgu_grep", "head_steps": 1}, ["head.", "body.", "body."]),
    ],
)
def test_the_recorded_loss_is_that_of_the_unperturbed_model(entry, steps):
    """``steps`` lists what each step trains: everything, the head or the body."""
    run = simulation(entry | {"rho": 30.0}, model=DNN, batch_size="full", local_steps=2, rounds=1)
    recorded = list(run.rounds())[1].arrays["train_loss"]
    for i in range(4):
        x, y = run.task.data.train.of_client(i)
        own, losses = run.task.initial_model(), []
        for part in steps:
            losses.append(float(loss(own, x, y)))
            slope = gradient(own, x, y)
            if entry["name"] == "fedsam":
                eps = perturbation(slope, [1.0, 1.0], 30.0, 2.0)
                slope = gradient({n: t + eps[n] for n, t in own.items()}, x, y)
            own = moved(own, {n: g for n, g in slope.items() if n.startswith(part)}, 0.1)
        assert recorded[i] == pytest.approx(sum(losses) / len(losses), rel=1e-10)


@pytest.mark.parametrize("name", ["plgu_lf", "plgu_grep"])
def test_a_radius_of_zero_is_noted_to_perturb_nothing(name):
    for rho in (0, 0.05):
        notes = simulation({"name": name, "rho": rho}, model=DNN).task.notes
        assert any("nothing is perturbed" in note for note in notes) == (rho == 0)


@pytest.mark.parametrize("entry", [{"name": "plgu_lf", "D": 1}, {"name": "plgu_grep"}])
def test_newcomers_participate_once(entry):
    """A client that never trained and a newcomer with the same data end their next participation with equal models."""
    run = trained(entry, model=DNN, participation=0.5, rounds=1)
    fresh = [i for i in range(4) if i not in run.task.cohort(1).clients.tolist()]
    newcomers = simulation(entry, model=DNN).task
    before = {n: p.clone() for n, p in run.state.personal_params.items()}
    adapted = run.algorithm.adapted(run.state, newcomers.everyone(round=2), newcomers)
    assert_equal(run.state.personal_params, before)
    after, _ = run.algorithm.round(run.state, run.task.everyone(round=2), run.task)
    for n, p in after.personal_params.items():
        torch.testing.assert_close(adapted.params[n][fresh], p[fresh])
