"""MOON: equal to FedAvg without contrast, and rounds computed with plain autograd."""

import pytest
import torch
from torch.nn import functional as F

from engine.algorithms.moon import cosine
from engine.core.errors import Unsupported
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.newcomers import unseen_models
from tests.support.settings import DNN

EXACT = 1e-11


def contrasted(received: plain.Params, last: plain.Params, mu: float, tau: float):
    """The loss of the paper on one batch, with its exponentials."""

    def loss(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        own = plain.hidden(params, x)
        near, far = (
            (F.cosine_similarity(own, plain.hidden(other, x), dim=1) / tau).exp() for other in (received, last)
        )
        return plain.cross_entropy(params, x, y) - mu * (near / (near + far)).log().mean()

    return loss


def test_without_contrast_moon_is_fedavg():
    run = trained({"name": "moon", "mu": 0}, model=DNN, rounds=4)
    assert_equal(shared_model(run), shared_model(trained("fedavg", model=DNN, rounds=4)))
    assert any("this is fedavg" in note for note in run.task.notes)


def test_in_the_first_round_no_client_has_a_contrast():
    assert_equal(
        shared_model(trained("moon", model=DNN, rounds=1)), shared_model(trained("fedavg", model=DNN, rounds=1))
    )


def test_with_a_growing_temperature_moon_becomes_fedavg():
    expected = flat(shared_model(trained("fedavg", model=DNN, rounds=4)))
    warmer = (trained({"name": "moon", "tau": tau}, model=DNN, rounds=4) for tau in (1.0, 1e3, 1e6))
    gaps = [float((flat(shared_model(run)) - expected).norm()) for run in warmer]
    assert gaps[0] > 1e-2 and gaps[1] < 1e-4 and gaps[2] < 1e-7


def flat(params: plain.Params) -> torch.Tensor:
    return torch.cat([p.flatten() for p in params.values()])


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_rounds_follow_the_paper(backend):
    mu, tau, rounds = 1.5, 0.3, 4
    run = simulation(
        {"name": "moon", "mu": mu, "tau": tau}, model=DNN, rounds=rounds, participation=0.75, backend=backend
    )
    w, last = run.task.initial_model(), {}
    for result in list(run.rounds())[1:]:
        cohort = run.task.cohort(result.round)
        after = {}
        for i, batches in samples_of(run.task, cohort.clients, cohort.plan).items():
            loss = contrasted(w, last.get(i, w), mu, tau)
            walked = [plain.descend(w, batches[:t], loss=loss) for t in range(4)]
            data_loss = [float(plain.cross_entropy(p, *b)) for p, b in zip(walked[:3], batches, strict=True)]
            assert result.arrays["train_loss"][i] == pytest.approx(sum(data_loss) / 3, rel=1e-10)
            after[i] = walked[3]
        last |= after
        w = plain.average(after, SIZES, ("body.", "head."))
    assert_close(shared_model(run), w, EXACT)
    for i, model in last.items():
        assert_close(
            {n: p[i] for n, p in run.state.personal_params.items()}, {n: model[n] for n in model if "body" in n}, EXACT
        )
    counts = run.state.participations.tolist()
    assert sum(counts) == 12 and len(set(counts)) > 1


def test_a_first_participation_among_later_ones_has_no_contrast():
    run = trained({"name": "moon", "mu": 2.0}, model=DNN, rounds=1)
    state = run.state
    first = state.participations.clone()
    first[2] = 0
    cohort = run.task.cohort(2)
    mixed, _ = run.algorithm.round(type(state)(state.global_params, state.personal_params, first), cohort, run.task)
    batches = samples_of(run.task, cohort.clients, cohort.plan)[2]
    alone = plain.descend(state.global_params, batches)
    assert_close(
        {n: p[2] for n, p in mixed.personal_params.items()}, {n: alone[n] for n in mixed.personal_params}, EXACT
    )


def test_a_small_temperature_does_not_overflow():
    run = trained({"name": "moon", "tau": 1e-6}, model=DNN, rounds=3)
    assert all(p.isfinite().all() for p in run.state.global_params.values())


def test_zero_vectors_have_cosine_zero_and_no_gradient():
    a = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    value = cosine(a, b)
    assert value.tolist() == pytest.approx([0, 0.6, 0])
    value.sum().backward()
    torch.testing.assert_close(a.grad, torch.tensor([[0, 0], [0.128, -0.096], [0, 0]], dtype=torch.float64))


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_dead_features_have_finite_gradients(backend):
    run = trained({"name": "moon"}, model=DNN | {"init": "zeros"}, rounds=3, backend=backend)
    assert_close(shared_model(run), shared_model(trained("fedavg", model=DNN | {"init": "zeros"}, rounds=3)), EXACT)


def test_every_client_and_newcomer_uses_the_global_model():
    run = trained("moon", with_newcomers(), model=DNN)
    assert_equal(personalized(run), {n: p.expand(4, *p.shape) for n, p in shared_model(run).items()})
    assert_equal(unseen_models(run), shared_model(run))


def test_a_model_without_a_body_is_refused():
    with pytest.raises(Unsupported, match="moon needs a body"):
        simulation("moon", model="mlr")
