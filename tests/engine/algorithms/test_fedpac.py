"""FedPAC: class statistics, the combination of heads and the pull toward prototypes, computed one by one."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from engine.algorithms.fedpac import class_statistics
from engine.algorithms.fedpac import head_shares as shares_of
from engine.core.errors import Unsupported
from engine.training.features import Features, shared_features
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    personalized,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.lost_uploads import losing
from tests.support.settings import DNN
from tests.support.split_models import EXACT, body_and_head, row_of

FEDPAC = {"name": "fedpac", "lam": 5.0, "head_steps": 4, "head_lr": 0.2}
ALONE = {"name": "fedpac", "lam": 0, "collaborate": False, "head_steps": 4}


def features_of(*clients: tuple[list[list[float]], list[int]], classes: int = 2) -> Features:
    values = torch.tensor([row for rows, _ in clients for row in rows], dtype=torch.float64)
    labels = torch.tensor([label for _, labels in clients for label in labels])
    owner = torch.tensor([i for i, (_, labels) in enumerate(clients) for _ in labels])
    return Features(values, labels, owner, len(clients), classes)


def head_shares(features: Features) -> torch.Tensor:
    return shares_of(features, torch.arange(features.num_clients))


def statistics(features: np.ndarray, labels: np.ndarray, classes: int = 3) -> tuple[np.ndarray, float]:
    """The mean of onehot(y) x f, and the trace of its covariance over the number of samples."""
    products = np.stack([np.outer(np.eye(classes)[y], f).ravel() for f, y in zip(features, labels, strict=True)])
    mean = products.mean(0)
    return mean, float(((products - mean) ** 2).sum() / len(products) ** 2)


def best_shares(own: int, means: list[np.ndarray], variances: list[float]) -> np.ndarray:
    """The least error over all choices of heads with positive shares, each by the equations of Lagrange."""
    gaps = np.stack([means[own] - mean for mean in means])
    form = np.diag(variances) + gaps @ gaps.T
    best, least = np.zeros(0), np.inf
    for size in range(1, len(means) + 1):
        for chosen in map(list, combinations(range(len(means)), size)):
            x = np.linalg.solve(form[np.ix_(chosen, chosen)], np.ones(size))
            shares = np.zeros(len(means))
            shares[chosen] = x / x.sum()
            error = shares @ form @ shares
            if (shares >= 0).all() and error < least:
                best, least = shares, error
    return best


def pulled(goals: dict[int, torch.Tensor]):
    def loss(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        gaps = plain.hidden(params, x) - torch.stack([goals[c] for c in y.tolist()])
        return plain.cross_entropy(params, x, y) + 5.0 * (gaps**2).mean(1).mean()

    return loss


@pytest.mark.parametrize("known", [[], [0]])
def test_rounds_equal_a_loop_over_clients_with_plain_autograd(known):
    """From a state without prototypes, or with that of one class."""
    run = simulation(FEDPAC, model=DNN, rounds=3, participation=0.75)
    task = run.task
    goal = torch.full((3, 6), 0.5, dtype=torch.float64)
    is_known = torch.tensor([c in known for c in range(3)])
    run.state = replace(run.state, prototypes=goal * is_known[:, None], is_known=is_known)
    prototypes = {c: goal[c] for c in known}
    phi, head = body_and_head(run)
    heads = [head] * 4
    results = list(run.rounds())
    for round in (1, 2, 3):
        cohort = task.cohort(round)
        own_batches, extra = (samples_of(task, cohort.clients, p) for p in (cohort.plan, task.plan(cohort, "head", 4)))
        fitted, bodies, found = {}, {}, {}
        for i in cohort.client_ids:
            x, y = task.data.train.of_client(i)
            received = plain.hidden(phi, x)
            found[i] = statistics(received.numpy(), y.numpy())
            fitted[i] = plain.descend(phi | heads[i], extra[i], 0.2, trained=["head."])
            goals = {c: received[y == c].mean(0) for c in y.unique().tolist()} | prototypes
            loss = pulled(goals) if prototypes else plain.cross_entropy
            bodies[i] = plain.descend(fitted[i], own_batches[i], loss=loss, trained=["body."])
        sums: dict[int, list[torch.Tensor]] = {}
        for i in cohort.client_ids:
            x, y = task.data.train.of_client(i)
            for row, c in zip(plain.hidden(bodies[i], x), y.tolist(), strict=True):
                sums.setdefault(c, []).append(row)
        prototypes = prototypes | {c: torch.stack(rows).mean(0) for c, rows in sums.items()}
        phi = plain.average(bodies, SIZES, "body.")
        means, variances = ([found[i][k] for i in cohort.client_ids] for k in (0, 1))
        for place, i in enumerate(cohort.client_ids):
            shares = best_shares(place, means, variances)
            heads[i] = {n: sum(a * fitted[j][n] for a, j in zip(shares, cohort.client_ids, strict=True)) for n in head}
            assert results[round].arrays["diagnostics.own_share"][i] == pytest.approx(shares[place], rel=1e-8)
            assert 0 < shares[place] < 1
    assert_close(run.state.shared_params, phi, 1e-8)
    assert_close(personalized(run), plain.stack([phi | own for own in heads]), 1e-8)
    expected = torch.stack([prototypes[c] for c in range(3)])
    torch.testing.assert_close(run.state.prototypes, expected, rtol=1e-8, atol=1e-8)


def test_without_pull_and_collaboration_this_is_fedrep():
    settings = {"model": DNN, "rounds": 3, "participation": 0.75}
    run, fedrep = trained(ALONE, **settings), trained({"name": "fedrep", "head_steps": 4}, **settings)
    assert_equal(run.state.shared_params, fedrep.state.shared_params)
    assert_equal(run.state.personal_params, fedrep.state.personal_params)
    ours, theirs = (list(simulation(m, **settings).rounds()) for m in (ALONE, {"name": "fedrep", "head_steps": 4}))
    names = ("bytes_up", "bytes_down", "gradient_evaluations")
    assert [[r.scalars[n] for n in names] for r in ours] == [[r.scalars[n] for n in names] for r in theirs]
    losses = [[r.arrays["train_loss"].tobytes() for r in results[1:]] for results in (ours, theirs)]
    assert losses[0] == losses[1]


def test_class_statistics_are_the_mean_and_its_variance():
    data = simulation("fedpac", model=DNN).task
    clients = torch.tensor([2, 0, 3])
    features = shared_features(data, data.initial_model(), data.data.train, clients)
    means, variances = class_statistics(features)
    for place, i in enumerate(clients.tolist()):
        x, y = data.data.train.of_client(i)
        mean, variance = statistics(plain.hidden(data.initial_model(), x).numpy(), y.numpy())
        np.testing.assert_allclose(means[place], mean, rtol=1e-12, atol=1e-14)
        assert float(variances[place]) == pytest.approx(variance, rel=1e-10)


def test_clients_with_equal_classes_share_heads_by_inverse_variance():
    """Means of 1 with deviations 1, 2 and 0.5, of two, two and four samples."""
    one, two, four = ([[1 - d], [1 + d]] for d in (1.0, 2.0, 0.5))
    shares = head_shares(features_of((one, [0, 0]), (two, [0, 0]), (four * 2, [0] * 4)))
    inverse = np.array([2 / 1, 2 / 4, 4 / 0.25])
    np.testing.assert_allclose(shares, [inverse / inverse.sum()] * 3, rtol=1e-9)


def test_a_client_without_variance_keeps_its_head():
    """It is certain of its class means, which differ from those of the other."""
    certain, other = ([[1.0], [1.0]], [0, 0]), ([[2.0], [4.0]], [0, 1])
    shares = head_shares(features_of(certain, other))
    np.testing.assert_allclose(shares[0], [1, 0], atol=1e-9)
    assert 0 < shares[1, 0] < 1


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_every_client_keeps_its_head_where_features_are_not_finite(value):
    features = features_of(([[value], [1.0]], [0, 1]), ([[2.0], [4.0]], [0, 1]))
    assert torch.equal(head_shares(features), torch.eye(2, dtype=torch.float64))


def test_equal_clients_without_variance_keep_their_heads():
    same = ([[1.0], [1.0]], [0, 0])
    assert torch.equal(head_shares(features_of(same, same)), torch.eye(2, dtype=torch.float64))


def test_a_single_participant_keeps_its_head():
    settings = {"model": DNN, "rounds": 3, "participation": 0.25}
    run, alone = trained(FEDPAC, **settings), trained(FEDPAC | {"collaborate": False}, **settings)
    assert_close(run.state.personal_params, alone.state.personal_params, 1e-15)


def test_a_client_whose_head_is_lost_keeps_it_and_the_others_combine_theirs():
    run, alone = (simulation(FEDPAC | {"collaborate": chosen}, model=DNN) for chosen in (True, False))
    cohort = run.task.cohort(1)
    lost, *_ = cohort.client_ids
    found, diagnostics = run.algorithm.round(run.state, cohort, losing(run, 0).task)
    kept, _ = alone.algorithm.round(alone.state, cohort, alone.task)
    assert_equal(row_of(found.personal_params, lost), row_of(kept.personal_params, lost))
    others = run.task.cohort_of([i for i in cohort.client_ids if i != lost], 1)
    combined, _ = run.algorithm.round(run.state, others, alone.task)
    for i in others.client_ids:
        assert_close(row_of(found.personal_params, i), row_of(combined.personal_params, i), 1e-12)
    assert bool(diagnostics.values["own_share"][lost].isnan())


def test_what_is_sent_depends_on_the_parts_that_are_used():
    body, head, prototypes = 8 * (5 * 6 + 6), 8 * (6 * 3 + 3), 8 * 3 * 6
    for options, down, up in [
        ({}, body + head + prototypes, body + head + 2 * prototypes + 8),
        ({"lam": 0}, body + head, body + head + prototypes + 8),
        ({"collaborate": False}, body + prototypes, body + prototypes),
    ]:
        *_, result = simulation({"name": "fedpac"} | options, model=DNN).rounds()
        assert (result.scalars["bytes_down"], result.scalars["bytes_up"]) == (4 * down, 4 * up)


def test_a_newcomer_fits_a_head_to_the_shared_body():
    run = trained(FEDPAC, with_newcomers(), model=DNN)
    task = run.task.of_unseen()
    newcomers = task.everyone(stream="newcomers")
    found = run.algorithm.adapted(run.state, newcomers, task).params
    start = run.state.shared_params | body_and_head(run)[1]
    for i, batches in samples_of(task, newcomers.clients, task.plan(newcomers, "head", 4)).items():
        assert_close(row_of(found, i), plain.descend(start, batches, 0.2, trained=["head."]), EXACT)


def test_fedpac_needs_a_body():
    with pytest.raises(Unsupported, match="fedpac needs a body"):
        simulation("fedpac", model="mlr")
