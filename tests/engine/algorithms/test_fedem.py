"""FedEM: its limits, and rounds with the responsibility of every sample computed one by one."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from engine.algorithms.fedem import responsibilities
from engine.config.schema import parse_experiment
from engine.core.errors import Unsupported
from engine.simulation.simulate import Simulation
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, assert_equal, federation, simulation, trained, with_newcomers
from tests.support.clusters import ZEROS
from tests.support.settings import DNN, VARIED_TRAINING
from tests.support.split_models import row_of

N = len(SIZES)
TWO = {"name": "fedem", "K": 2}


def after_rounds(run: Simulation, rounds: int = 2) -> plain.Params:
    """The components after rounds from the current state."""
    state = run.state
    for round in range(1, rounds + 1):
        state, _ = run.algorithm.round(state, run.task.cohort(round), run.task)
    return state.components


def alike(params: plain.Params) -> plain.Params:
    """The first component, twice."""
    return {n: torch.stack([p[0]] * 2) for n, p in params.items()}


@pytest.mark.parametrize("training", VARIED_TRAINING, ids=str)
@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_fedem_with_one_component_is_fedavg(backend: str, training: dict):
    run, plainly = (simulation(a, backend=backend, **training) for a in (TWO | {"K": 1}, "fedavg"))
    of_fedem, of_fedavg = list(run.rounds()), list(plainly.rounds())
    assert_equal(row_of(run.state.components, 0), plainly.state.global_params)
    assert any("this is fedavg" in note for note in run.task.notes)
    for ours, theirs in zip(of_fedem, of_fedavg, strict=True):
        for n in ("train_loss", "personalized.accuracy", "personalized.loss"):
            assert n not in theirs.arrays or np.allclose(ours.arrays[n], theirs.arrays[n], 1e-9, 0, equal_nan=True)


def test_components_that_start_alike_stay_alike_at_half_the_rate():
    run = simulation(TWO, participation=0.75)
    run.state = replace(run.state, components=alike(run.state.components))
    found = after_rounds(run)
    expected = trained("fedavg", participation=0.75, lr=0.05).state.global_params
    for k in (0, 1):
        assert_close(row_of(found, k), expected)


def test_a_component_that_no_client_uses_stays_and_the_other_one_is_fedavg():
    run = simulation(TWO, model=DNN)
    run.state = replace(run.state, pi=torch.tensor([[1.0, 0.0]] * N, dtype=torch.float64))
    found = after_rounds(run)
    assert_close(row_of(found, 0), trained("fedavg", model=DNN).state.global_params)
    assert_close(row_of(found, 1), row_of(run.state.components, 1), 1e-14)


def negative_log_likelihood(components: plain.Params, pi: torch.Tensor, x: torch.Tensor, y: torch.Tensor):
    p = torch.stack([F.softmax(plain.logits(row_of(components, k), x), -1) for k in range(len(pi))])
    return -(pi[:, None] * p[:, torch.arange(len(y)), y]).sum(0).log().mean()


def new_proportions(run: Simulation) -> torch.Tensor:
    clients = torch.arange(run.task.num_clients)
    return responsibilities(run.task, run.state.components, run.state.pi[clients], clients)[1]


def test_the_step_of_full_batches_follows_the_gradient_of_the_mixture():
    run = simulation(TWO, federation(sizes=(8,)), model=DNN, local_steps=1, batch_size="full")
    run.state = replace(run.state, pi=torch.tensor([[0.3, 0.7]], dtype=torch.float64))
    start = {n: p.clone().requires_grad_() for n, p in run.state.components.items()}
    value = negative_log_likelihood(start, run.state.pi[0], *run.task.data.train.of_client(0))
    slopes = dict(zip(start, torch.autograd.grad(value, list(start.values())), strict=True))
    assert_close(after_rounds(run, 1), {n: p - 0.1 * slopes[n] for n, p in run.state.components.items()}, 1e-10)


def test_repeated_e_steps_never_raise_the_negative_log_likelihood():
    run = simulation({"name": "fedem", "K": 3}, model=DNN)
    values = []
    for _ in range(6):
        data = (run.task.data.train.of_client(i) for i in range(N))
        losses = [negative_log_likelihood(run.state.components, run.state.pi[i], *own) for i, own in enumerate(data)]
        values.append(torch.stack(losses))
        run.state = replace(run.state, pi=new_proportions(run))
    assert all((after <= before + 1e-12).all() for before, after in pairwise(values))
    assert (values[0] > values[-1]).all()


def shares(components: list[plain.Params], pi: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """q [M, K], one sample after another."""
    found = []
    for one, label in zip(x, y, strict=True):
        joint = [p * F.softmax(plain.logits(w, one[None])[0], -1)[label] for p, w in zip(pi, components, strict=True)]
        found.append(torch.stack(joint) / sum(joint))
    return torch.stack(found)


@pytest.mark.parametrize("training", [{}, {"local_epochs": 2}, {"batch_size": "full"}], ids=str)
def test_fedem_rounds_follow_the_paper(training: dict):
    run = simulation({"name": "fedem", "K": 3}, model=DNN, participation=0.75, **training)
    task = run.task
    components = [task.initial_model(k) for k in range(3)]
    pi = torch.full((N, 3), 1 / 3, dtype=torch.float64)
    for result in run.rounds():
        if result.round:
            cohort, pi = task.cohort(result.round), pi.clone()
            batches, copies = samples_of(task, cohort.clients, cohort.plan), {}
            for i, steps in batches.items():
                x, y = task.data.train.of_client(i)
                q = shares(components, pi[i], x, y)
                pi[i] = q.mean(0)
                copies[i] = []
                for k, w in enumerate(components):

                    def loss(p, xs, ys, x=x, share=q[:, k]):
                        at = [int((x == one).all(1).nonzero()) for one in xs]
                        return (share[at] * F.cross_entropy(plain.logits(p, xs), ys, reduction="none")).sum() / len(ys)

                    copies[i].append(plain.descend(w, steps, loss=loss))
            components = [plain.average({i: c[k] for i, c in copies.items()}, SIZES, "") for k in range(3)]
            np.testing.assert_allclose(result.arrays["diagnostics.pi"], pi, atol=1e-10)
            entropy = -(pi * pi.log()).sum(1)
            np.testing.assert_allclose(result.arrays["diagnostics.entropy"], entropy, atol=1e-10)
            np.testing.assert_array_equal(result.clusters, pi.argmax(1))
        for k in range(3):
            assert_close(row_of(run.state.components, k), components[k], 1e-10)
        for i in range(N):
            x, y = task.data.test.of_client(i)
            expected = negative_log_likelihood(plain.stack(components), pi[i], x, y)
            assert result.arrays["personalized.loss"][i] == pytest.approx(float(expected), abs=1e-10)


def test_the_recorded_loss_is_that_of_all_components_by_their_shares():
    run = simulation(TWO, model=DNN, local_steps=1, batch_size="full")
    components = [row_of(run.state.components, k) for k in range(2)]
    cohort = run.task.cohort(1)
    _, diagnostics = run.algorithm.round(run.state, cohort, run.task)
    for i, found in zip(cohort.client_ids, diagnostics.train_loss, strict=True):
        x, y = run.task.data.train.of_client(i)
        losses = [F.cross_entropy(plain.logits(w, x), y, reduction="none") for w in components]
        expected = (shares(components, run.state.pi[i], x, y) * torch.stack(losses, 1)).sum(1).mean()
        assert float(found) == pytest.approx(float(expected), rel=1e-10)


def test_a_newcomer_of_fedem_gets_its_proportions_from_one_e_step():
    run = trained(TWO, with_newcomers(), model=DNN)
    task = run.task.of_unseen()
    predictor = run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task)
    components = [row_of(run.state.components, k) for k in range(2)]
    equal = torch.full((2,), 0.5, dtype=torch.float64)
    expected = [shares(components, equal, *task.data.train.of_client(i)).mean(0) for i in range(3)]
    torch.testing.assert_close(predictor.params["pi"], torch.stack(expected), rtol=0, atol=1e-12)
    assert_equal(row_of({n: p for n, p in predictor.params.items() if n != "pi"}, 2), run.state.components)


def test_fedem_costs_as_many_local_trainings_as_it_has_components():
    ours, theirs = (list(simulation(a, participation=0.5).rounds())[1].scalars for a in (TWO | {"K": 3}, "fedavg"))
    for n in ("bytes_up", "bytes_down", "gradient_evaluations"):
        assert ours[n] == 3 * theirs[n]


def test_equal_proportions_are_those_of_the_first_component():
    run = simulation({"name": "fedem", "K": 2})
    run.state = replace(run.state, components=alike(run.state.components))
    _, diagnostics = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    assert diagnostics.clusters.tolist() == [0] * N


def test_fedem_refuses_identical_components():
    with pytest.raises(Unsupported, match="init: default, or K: 1"):
        simulation(TWO, model=ZEROS)
    simulation({"name": "fedem", "K": 1}, model=ZEROS)


def test_a_mixture_has_no_distance_from_a_true_model():
    raw = {
        "dataset": {"name": "synthetic", "num_clients": 4, "samples_per_client": 20},
        "partition": "natural",
        "model": "logistic",
        "training": {"rounds": 1, "local_steps": 1},
        "algorithms": [TWO, "fedavg"],
    }
    mixture, fedavg = ([*Simulation(run).rounds()][-1].arrays for run in parse_experiment(raw).runs())
    assert "personalized.total_error" in fedavg and "personalized.total_error" not in mixture
