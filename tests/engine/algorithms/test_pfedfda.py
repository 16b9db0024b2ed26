"""pFedFDA: heads against Gaussian posteriors, and rounds computed client by client."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal
from torch.nn import functional as F

from engine.algorithms import pfedfda
from engine.algorithms.pfedfda import Statistics, coefficients, folds_of, smoothed, solved_by_scipy, solved_by_torch
from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS
from engine.core.streams import key, permutation_prefix
from engine.models import Model, SplitModel
from engine.training.features import Features, shared_features
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.newcomers import unseen_models
from tests.support.settings import DNN

EXACT = 1e-9
LAST_BIT = 2**-23  # of a number in single precision
RIDGE, EPSILON = 0.1, 0.01
EYE = torch.eye(6, dtype=torch.float64)
FDA = {"name": "pfedfda", "ridge": RIDGE, "epsilon": EPSILON}
Pair = tuple[torch.Tensor, torch.Tensor]  # class means and covariance


def prior_of(labels: torch.Tensor) -> torch.Tensor:
    shares = torch.bincount(labels, minlength=3).double() / len(labels) + EPSILON
    return shares / shares.sum()


def inverse_of(covariance: torch.Tensor) -> torch.Tensor:
    """Z'^-1."""
    return torch.linalg.inv((1 - EPSILON) * covariance + EPSILON * covariance.trace() / 6 * EYE)


def head_of(statistics: Pair, prior: torch.Tensor) -> Pair:
    means, inverse = statistics[0], inverse_of(statistics[1])
    return means @ inverse, prior.log() - (means @ inverse @ means.T).diagonal() / 2


def statistics_of(features: torch.Tensor, labels: torch.Tensor, shared: Pair) -> Pair:
    rows = [features[labels == c].mean(0) if int((labels == c).sum()) > 2 else shared[0][c] for c in range(3)]
    scatter = sum(torch.outer(f - rows[y], f - rows[y]) for f, y in zip(features, labels, strict=True))
    return torch.stack(rows), scatter / max(1, len(labels) - 1) + RIDGE * EYE


def mixed(own: Pair, shared: Pair, a: float, b: float) -> Pair:
    return a * own[0] + (1 - a) * shared[0], b * own[1] + (1 - b) * shared[1]


def folds(labels: torch.Tensor, task, client: int) -> tuple[list[int], list[int]]:
    """Samples of each class in turn, in the order of the client's permutation."""
    size = torch.tensor([len(labels)])
    order = permutation_prefix(key(task.seed, "fda folds"), torch.tensor([client]), size, len(labels), len(labels))
    found: tuple[list[int], list[int]] = ([], [])
    for c in range(3):
        members = [j for j in order[0].tolist() if labels[j] == c]
        if len(members) > 1:
            for place, j in enumerate(members):
                found[place % 2].append(j)
    return found


def best_shares(features, labels, shared: Pair, task, client: int, kind: str) -> tuple[float, float]:
    halves = folds(labels, task, client)
    if not halves[0]:
        return 0.0, 0.0
    numbers = [step / (10 if kind == "double" else 20) for step in range(11 if kind == "double" else 21)]
    pairs = [(a, b) for b in numbers for a in (numbers if kind == "double" else [b])]
    losses, prior = torch.zeros(len(pairs), dtype=torch.float64), prior_of(labels)
    for own, other in (halves, halves[::-1]):
        fold = statistics_of(features[own], labels[own], shared)
        inverses = {b: inverse_of(mixed(fold, shared, 0, b)[1]) for b in numbers}
        for place, (a, b) in enumerate(pairs):
            means = mixed(fold, shared, a, 0)[0]
            weight = means @ inverses[b]
            bias = prior.log() - (weight * means).sum(1) / 2
            losses[place] += F.cross_entropy(features[other] @ weight.T + bias, labels[other])
    return pairs[int((losses <= losses.min() * (1 + 1e-6)).nonzero()[0])]


def square(triangle: torch.Tensor) -> torch.Tensor:
    lower = torch.zeros(6, 6, dtype=torch.float64)
    lower[np.tril_indices(6)] = triangle.double()
    return lower + lower.tril(-1).T


def shared_of(run) -> Pair:
    return run.state.shared_params["means"], square(run.state.shared_params["covariance"])


def client_of(body: plain.Params, x: torch.Tensor, y: torch.Tensor, shared: Pair, task, client: int, kind) -> tuple:
    """The client's mixed statistics and its shares."""
    features = plain.hidden(body, x)
    shares = (kind, kind) if isinstance(kind, float) else best_shares(features, y, shared, task, client, kind)
    return mixed(statistics_of(features, y, shared), shared, *shares), shares


@pytest.mark.parametrize("kind", ["double", "single", 0.3])
@pytest.mark.slow
def test_rounds_follow_the_paper(kind):
    run = simulation(FDA | {"beta": kind}, model=DNN, participation=0.75)
    task, data = run.task, run.task.data.train
    body, shared = {n: run.state.shared_params[n] for n in task.model.body}, shared_of(run)
    for result in list(run.rounds())[1:]:
        cohort = task.cohort(result.round)
        bodies, sent, taken = {}, {}, []
        for i, batches in samples_of(task, cohort.clients, cohort.plan).items():
            x, y = data.of_client(i)
            weight, bias = head_of(shared, prior_of(y))
            start = body | {"head.weight": weight, "head.bias": bias}
            bodies[i] = plain.descend(start, batches, trained=("body.",))
            (means, covariance), shares = client_of(bodies[i], x, y, shared, task, i, kind)
            sent[i] = {"means": means, "covariance": covariance}
            taken.append(shares)
        body = plain.average(bodies, SIZES, "body.")
        new = plain.average(sent, SIZES, ("means", "covariance"))
        shared = new["means"], new["covariance"]
        for name, values in zip(("own_means", "own_covariance"), zip(*taken, strict=True), strict=True):
            assert result.scalars[f"diagnostics.{name}"] == pytest.approx(sum(values) / 3)
    assert_close({n: run.state.shared_params[n] for n in body}, body, EXACT)
    for found, expected in zip(shared_of(run), shared, strict=True):
        torch.testing.assert_close(found, expected, rtol=EXACT, atol=EXACT)
    models = personalized(run)
    for i in range(4):
        own, _ = client_of(body, *data.of_client(i), shared, task, i, kind)
        weight, bias = head_of(own, prior_of(data.of_client(i)[1]))
        torch.testing.assert_close(models["head.weight"][i], weight, rtol=EXACT, atol=EXACT)
        torch.testing.assert_close(models["head.bias"][i], bias, rtol=EXACT, atol=EXACT)
        assert_equal({n: models[n][i] for n in body}, {n: run.state.shared_params[n] for n in body})
    assert run.algorithm.global_model(run.state, task) is None


def test_the_logits_are_the_log_posterior_of_gaussians():
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    root = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    covariance, prior = root @ root.T, torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    smooth = 0.9 * covariance + 0.1 * covariance.trace() / 4 * torch.eye(4, dtype=torch.float64)
    weight = coefficients(means, covariance, 0.1)
    x = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    logits = x @ weight.T + prior.log() - (weight * means).sum(1) / 2
    densities = torch.stack([MultivariateNormal(m, smooth).log_prob(x) for m in means], 1)
    torch.testing.assert_close(logits.log_softmax(1), (densities + prior.log()).log_softmax(1))


def test_without_own_statistics_heads_differ_by_class_frequencies_alone():
    run = trained(FDA | {"beta": 0.0}, model=DNN)
    models = personalized(run)
    priors = torch.stack([prior_of(run.task.data.train.of_client(i)[1]) for i in range(4)]).log()
    for i in range(1, 4):
        assert torch.equal(models["head.weight"][i], models["head.weight"][0])
        torch.testing.assert_close(models["head.bias"][i] - models["head.bias"][0], priors[i] - priors[0])
    start = simulation(FDA, model=DNN)
    for found, expected in zip(shared_of(run), shared_of(start), strict=True):
        torch.testing.assert_close(found, expected)  # nothing of the clients' statistics is sent


def test_own_statistics_are_weighted_by_samples_not_by_class():
    run = trained(FDA | {"beta": 1.0}, model=DNN, rounds=1)
    task = run.task
    start, total = shared_of(simulation(FDA, model=DNN)), torch.zeros(3, 6, dtype=torch.float64)
    cohort = task.cohort(1)
    for i, batches in samples_of(task, cohort.clients, cohort.plan).items():
        x, y = task.data.train.of_client(i)
        weight, bias = head_of(start, prior_of(y))
        body = {n: task.initial_model()[n] for n in task.model.body}
        after = plain.descend(body | {"head.weight": weight, "head.bias": bias}, batches, trained=("body.",))
        total += SIZES[i] / sum(SIZES) * statistics_of(plain.hidden(after, x), y, start)[0]
    torch.testing.assert_close(shared_of(run)[0], total, rtol=EXACT, atol=EXACT)


def test_statistics_are_computed_in_double_precision_from_features_in_single_precision():
    run = simulation(FDA | {"beta": 0.3}, federation(dtype=torch.float32), model=DNN, dtype="float32")
    task, body = run.task, run.state.shared_params
    shared, models = tuple(of.double() for of in shared_of(run)), personalized(run)
    features = shared_features(task, body, task.data.train, torch.arange(4)).values.double().split(SIZES)
    for i, own in enumerate(features):
        _, y = task.data.train.of_client(i)
        head = head_of(mixed(statistics_of(own, y, shared), shared, 0.3, 0.3), prior_of(y))
        for name, expected in zip(task.model.head, head, strict=True):
            torch.testing.assert_close(models[name][i], expected.float(), rtol=LAST_BIT, atol=0)


def test_losses_of_mixtures_lose_nothing_in_single_precision_if_features_are_far_from_zero():
    values, labels = torch.randn(40, 6, dtype=torch.float64) + 1000, torch.arange(40) % 3
    fold = Features(values, labels, torch.zeros_like(labels), 1, 3)
    shared = Statistics(values[:3] + 1, EYE)
    (own,), grid = pfedfda.statistics_of(fold, shared, RIDGE), torch.linspace(0, 1, 11, dtype=torch.float64)
    of_means, log_prior = grid.expand(11, -1), prior_of(labels).log()
    single, double = (
        simulation(FDA, model=DNN).algorithm._losses(
            values, labels, own, shared, of_means, grid, log_prior, dtype=dtype
        )
        for dtype in (torch.float32, torch.float64)
    )
    torch.testing.assert_close(single, double, rtol=1e-6, atol=0)


def test_what_is_sent_is_linear_in_the_share():
    none, some, whole = (shared_of(trained(FDA | {"beta": b}, model=DNN, rounds=1)) for b in (0.0, 0.3, 1.0))
    for start, between, end in zip(none, some, whole, strict=True):
        torch.testing.assert_close(between, 0.7 * start + 0.3 * end)


def test_samples_of_a_class_alternate_between_the_folds():
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    values = torch.arange(6.0)[:, None]
    found = folds_of(
        Features(values, labels, torch.zeros(6, dtype=torch.int64), 1, 3), torch.tensor([5, 2, 3, 0, 4, 1])
    )
    assert found.values[:, 0].tolist() == [5, 2, 1, 0, 4] and found.owner.tolist() == [0, 0, 0, 1, 1]
    assert found.labels.tolist() == [2, 0, 0, 0, 2] and found.num_clients == 2


def test_clients_with_too_few_samples_use_the_shared_statistics():
    run = trained(FDA, federation((1, 8)), model=DNN)
    models, shared = personalized(run), shared_of(run)
    weight, bias = head_of(shared, prior_of(run.task.data.train.of_client(0)[1]))
    torch.testing.assert_close(models["head.weight"][0], weight, rtol=EXACT, atol=EXACT)
    torch.testing.assert_close(models["head.bias"][0], bias, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("solved", [solved_by_scipy, solved_by_torch])
def test_a_covariance_that_cannot_be_inverted_leaves_the_class_frequencies(solved):
    means = torch.ones(3, 4, dtype=torch.float64)
    one_nan = torch.eye(4).index_put_((torch.tensor([2, 1]), torch.tensor([1, 2])), torch.tensor(torch.nan))
    nothing_finite = torch.full((4, 4), torch.nan), torch.full((4, 4), torch.inf)
    for broken in (torch.zeros(4, 4), -torch.eye(4), one_nan, *nothing_finite):
        assert solved(smoothed(broken.double(), 1e-4), means).eq(0).all()


@pytest.mark.parametrize("solved", [solved_by_scipy, solved_by_torch])
def test_coefficients_solve_the_system_of_the_covariance(solved):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    means = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    covariance = root @ root.T
    torch.testing.assert_close(solved(covariance.clone(), means) @ covariance, means, rtol=EXACT, atol=EXACT)


def test_the_lower_triangle_is_sent():
    run = simulation(FDA, model=DNN)
    shared = run.algorithm.shared(run.state)
    assert shared.bytes_up == shared.bytes_down == 8 * (5 * 6 + 6 + 3 * 6 + 6 * 7 // 2)


@pytest.mark.slow
def test_newcomers_get_a_head_from_their_own_statistics():
    run = trained(FDA, with_newcomers(), model=DNN)
    task, found = run.task.of_unseen(), unseen_models(run)
    body = {n: run.state.shared_params[n] for n in task.model.body}
    for i in range(3):
        x, y = task.data.train.of_client(i)
        own, _ = client_of(body, x, y, shared_of(run), task, i, "double")
        weight, bias = head_of(own, prior_of(y))
        torch.testing.assert_close(found["head.weight"][i], weight, rtol=EXACT, atol=EXACT)
        torch.testing.assert_close(found["head.bias"][i], bias, rtol=EXACT, atol=EXACT)


def test_wide_features_are_noted(monkeypatch):
    assert simulation(FDA, model=DNN).task.notes == []
    monkeypatch.setattr("engine.algorithms.pfedfda.WIDE", 5)
    assert "with 6 features" in simulation(FDA, model=DNN).task.notes[0]


def test_models_without_a_body_or_with_another_head_are_refused():
    with pytest.raises(Unsupported, match="pfedfda needs a body"):
        simulation("pfedfda", model="mlr")
    task, entry = simulation(FDA, model=DNN).task, ALGORITHMS.get("pfedfda")
    body = lambda: nn.Sequential(nn.Flatten(), nn.Linear(5, 6))  # noqa: E731
    for head, message in (
        (nn.Sequential(nn.Linear(6, 3)), "one linear layer"),
        (nn.Linear(6, 3, bias=False), "a bias"),
    ):
        make = lambda head=head: SplitModel(body(), head)  # noqa: E731
        with pytest.raises(Unsupported, match=message):
            entry.make(entry.options()).init(dataclasses.replace(task, model=Model(make(), make)))
