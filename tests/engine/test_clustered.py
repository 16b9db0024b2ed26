"""IFCA, CFL and FL+HC: FedAvg while nobody is apart, the papers' choice of clusters, FedAvg inside them."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from engine.algorithms.cfl import bipartition
from engine.clusters import average_inside, cosine_similarity, least_loss
from engine.errors import InvalidConfig, Unsupported
from engine.federation import Federation
from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
)
from tests.support.reference import as_matrix, batches_of

TRUTH = np.array([0, 1, 0, 1, 1, 0])
ZEROS = {"name": "mlr", "init": "zeros"}


def two_rules(sizes: tuple[int, ...] = (8,) * 6) -> Federation:
    """Clients of context 1 have the labels of context 0's rule turned round."""
    data = federation(sizes, seed=3)
    rule = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for part in (data.train, data.test):
        owner = torch.repeat_interleave(torch.from_numpy(TRUTH[: len(sizes)]), part.sizes)
        logits = part.x @ rule
        part.y.copy_(torch.where(owner == 0, logits.argmax(1), logits.argmin(1)))
    return replace(data, contexts=TRUTH[: len(sizes)])


def groups(labels: torch.Tensor | np.ndarray) -> set[frozenset[int]]:
    """A clustering without its numbers."""
    return {frozenset(np.flatnonzero(np.asarray(labels) == k)) for k in np.unique(labels)}


def training_loss(run, W: np.ndarray, client: int) -> float:
    x, y = run.task.data.train.of_client(int(client))
    return reference.loss(W, x.numpy(), y.numpy())


def matrices(run) -> np.ndarray:
    """[K, C, F + 1] models of the clusters."""
    return as_matrix(run.state.contexts.models)


# --- FedAvg inside clusters


@pytest.mark.parametrize(
    "method",
    [{"name": "ifca", "K": 1}, {"name": "cfl", "eps1": 0, "warmup": 0}, {"name": "cfl", "warmup": 3},
     {"name": "fl_hc", "at_round": 4}, {"name": "fl_hc", "at_round": 3, "n_clusters": 1}],
)  # fmt: skip
def test_one_cluster_is_fedavg_and_says_so(method):
    data = two_rules()
    expected = shared_model(trained("fedavg", data, rounds=3))
    found = trained(method, data, rounds=3)
    for client in range(data.num_clients):
        assert_close({n: p[client] for n, p in personalized(found).items()}, expected, 1e-12)
    assert_equal(personalized(found), shared_model(found))
    assert any("this is fedavg" in note for note in found.task.notes)


def test_a_cluster_averages_its_participants_by_samples_and_keeps_its_model_without_any():
    models, copies = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[10.0], [20.0], [40.0]])
    weights = torch.tensor([0.125, 0.5, 0.375])
    found = average_inside({"w": models}, {"w": copies}, torch.tensor([2, 0, 2]), weights)["w"]
    assert found.tolist() == [[20.0], [2.0], [32.5]]


def test_a_client_takes_the_first_of_equal_models_and_none_that_is_not_finite():
    losses = torch.tensor([[2.0, 1.0, 1.0], [torch.nan, torch.inf, 5.0], [torch.nan] * 3])
    assert least_loss(losses).tolist() == [1, 2, 0]


def test_an_update_of_zero_is_like_no_other():
    found = cosine_similarity({"w": torch.tensor([[0.0, 0.0], [3.0, 4.0], [-6.0, -8.0]])})
    np.testing.assert_allclose(found, [[0, 0, 0], [0, 1, -1], [0, -1, 1]], atol=1e-12)


@pytest.mark.parametrize("method", ["ifca", "cfl", "fl_hc"])
def test_the_model_of_a_client_is_evaluated_once(method):
    run = trained(method)
    one, other = (f(run.state, run.task) for f in (run.algorithm.personalized, run.algorithm.global_model))
    assert one.params is other.params


@pytest.mark.parametrize(
    "method",
    [{"name": "ifca", "K": 2}, {"name": "cfl", "eps1": 9, "eps2": 0, "warmup": 0},
     {"name": "fl_hc", "at_round": 1, "n_clusters": 2}],
)  # fmt: skip
def test_a_newcomer_gets_the_clusters_model_that_fits_its_training_data(method):
    run, others = trained(method, two_rules(), rounds=3), simulation("fedavg", two_rules((5, 7, 6)))
    found = run.algorithm.adapted(run.state, others.task.everyone(stream="newcomers"), others.task)
    models = matrices(run)
    assert len(models) > 1
    for client in range(3):
        best = np.argmin([training_loss(others, W, client) for W in models])
        np.testing.assert_array_equal(as_matrix(dict(found.params))[client], models[best])


# --- IFCA


def test_ifca_rounds_as_the_paper_writes_them():
    run = simulation({"name": "ifca", "K": 3}, two_rules((6, 9, 4, 7, 8, 5)), participation=0.5, rounds=3)
    clients = range(run.task.num_clients)
    models = [as_matrix(run.task.initial_model(k)) for k in range(3)]
    for result in run.rounds():
        if result.round:
            batches, sizes = batches_of(run, result.round), run.task.train_sizes
            chosen = {i: np.argmin([training_loss(run, W, i) for W in models]) for i in result.cohort}
            copies = {i: reference.sgd(models[k], batches[i], 0.1) for i, k in chosen.items()}
            for k in set(chosen.values()):
                members = [i for i in chosen if chosen[i] == k]
                models[k] = np.average([copies[i] for i in members], axis=0, weights=[sizes[i] for i in members])
            losses = np.array([[training_loss(run, W, i) for W in models] for i in clients])
            np.testing.assert_allclose(result.arrays["diagnostics.losses"], losses, atol=1e-10)
            np.testing.assert_array_equal(result.clusters, losses.argmin(1))
            assert result.scalars["diagnostics.ari"] == adjusted_rand_score(TRUTH, losses.argmin(1))
        best = [np.argmin([training_loss(run, W, i) for W in models]) for i in clients]
        np.testing.assert_allclose(as_matrix(personalized(run)), np.stack(models)[best], atol=1e-10)


def test_ifca_finds_two_kinds_of_clients():
    run = trained({"name": "ifca", "K": 2}, two_rules((20,) * 6), rounds=5, local_steps=9)
    assert groups(run.state.contexts.assigned) == groups(TRUTH)


def test_ifca_sends_every_model_and_gets_one_back():
    results = list(simulation({"name": "ifca", "K": 3}, participation=0.5).rounds())
    sent, returned = results[1].scalars["bytes_down"], results[1].scalars["bytes_up"]
    assert sent == 3 * returned == 3 * 2 * 18 * 8


def test_ifca_evaluates_gradients_as_fedavg():
    costs = [[r.scalars["gradient_evaluations"] for r in simulation(a).rounds()] for a in ("fedavg", "ifca")]
    assert costs[0] == costs[1]


def test_ifca_refuses_models_that_start_alike():
    with pytest.raises(Unsupported, match="init: default, or K: 1"):
        simulation({"name": "ifca", "K": 2}, model=ZEROS)
    simulation({"name": "ifca", "K": 1}, model=ZEROS)


# --- CFL

SPLITTING = {"name": "cfl", "eps1": 100.0, "eps2": 0.0, "warmup": 1}


def test_cfl_splits_after_the_warmup_and_each_half_is_fedavg_among_its_own():
    run = simulation(SPLITTING | {"eps2": 0.2}, two_rules((6, 9, 4, 7, 8, 5)), rounds=3, model=ZEROS, local_steps=9)
    list(zip(range(3), run.rounds(), strict=False))
    assert groups(run.state.contexts.assigned) == groups(TRUTH)
    shared, copies = np.zeros((3, 6)), []
    for round in (1, 2):
        copies = [reference.sgd(shared, b, 0.1) for b in batches_of(run, round)]
        shared = np.average(copies, axis=0, weights=run.task.train_sizes)
    for members in ([0, 2, 5], [1, 3, 4]):
        sizes = np.array(run.task.train_sizes)[members]
        mean = np.average(np.stack(copies)[members], axis=0, weights=sizes)
        np.testing.assert_allclose(as_matrix(personalized(run))[members], [mean] * 3, atol=1e-12)


def test_cfl_records_the_norms_of_the_mean_and_of_the_largest_update():
    results = list(simulation({"name": "cfl", "warmup": 9}, two_rules(), rounds=1, model=ZEROS).rounds())
    run = simulation("fedavg", two_rules(), model=ZEROS)
    updates = [reference.sgd(np.zeros((3, 6)), b, 0.1) for b in batches_of(run, 1)]
    mean, largest = (results[1].arrays[f"diagnostics.{n}_update_norm"] for n in ("mean", "max"))
    np.testing.assert_allclose(mean, [np.linalg.norm(np.mean(updates, axis=0))])
    np.testing.assert_allclose(largest, [max(map(np.linalg.norm, updates))])


@pytest.mark.parametrize(("side", "splits"), [("eps1", False), ("eps2", False), (None, True)])
def test_cfl_splits_only_where_the_mean_is_short_and_an_update_is_long(side, splits):
    first = list(simulation({"name": "cfl", "warmup": 9}, two_rules(), rounds=1).rounds())[1]
    mean, largest = (first.arrays[f"diagnostics.{n}_update_norm"][0] for n in ("mean", "max"))
    thresholds = {"eps1": 1.01 * mean, "eps2": 0.99 * largest}
    if side:
        thresholds[side] = mean if side == "eps1" else largest
    run = trained({"name": "cfl", "warmup": 0, **thresholds}, two_rules(), rounds=1)
    assert (len(matrices(run)) == 2) is splits


def test_cfl_leaves_two_clients_together_and_says_which_clusters_nobody_was_in():
    run = simulation(SPLITTING, federation((6, 6)), rounds=4)
    assert all(not r.clusters.any() for r in list(run.rounds())[1:])
    results = list(simulation(SPLITTING | {"warmup": 0}, two_rules(), rounds=4, participation=0.5).rounds())
    norms = results[-1].arrays["diagnostics.mean_update_norm"]
    before, there = results[-2].clusters, results[-1].cohort
    assert len(norms) == before.max() + 1 > 1
    np.testing.assert_array_equal(np.isnan(norms), ~np.isin(np.arange(len(norms)), before[there]))


def test_cfl_puts_a_client_that_sat_out_where_its_training_data_fit():
    for seed in range(3):
        run = trained(SPLITTING | {"warmup": 0}, two_rules(), rounds=1, participation=0.67, seed=seed, local_steps=9)
        absent = set(range(6)) - set(run.task.cohort(1).clients.tolist())
        models, assigned = matrices(run), run.state.contexts.assigned
        assert len(models) == 2 and len(absent) == 2
        for client in absent:
            assert assigned[client] == np.argmin([training_loss(run, W, client) for W in models])


def test_the_cut_has_the_least_largest_similarity_across_it():
    for seed in range(5):
        updates = torch.randn(7, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        similarity = cosine_similarity({"w": updates})

        def across(first: tuple[int, ...], similarity=similarity) -> float:
            return similarity[np.ix_(first, [i for i in range(7) if i not in first])].max()

        cuts = [first for size in (1, 2, 3) for first in combinations(range(7), size)]
        found = tuple(np.flatnonzero(bipartition({"w": updates})).tolist())
        assert 0 not in found and across(found) == min(map(across, cuts))


def test_cfl_says_that_it_never_splits():
    assert any("this is fedavg" in n for n in simulation("cfl", rounds=20).task.notes)
    assert not simulation("cfl", rounds=21).task.notes
    assert any("raise participation" in n for n in simulation("cfl", rounds=21, participation=0.5).task.notes)


# --- FL+HC


def updates_of_round_one(run) -> np.ndarray:
    start = as_matrix(run.task.initial_model())
    return np.stack([(reference.sgd(start, b, 0.1) - start).ravel() for b in batches_of(run, 1)])


@pytest.mark.parametrize(
    ("linkage", "metric"),
    [("ward", "euclidean"), ("average", "euclidean"), ("complete", "manhattan"), ("single", "cosine")],
)
def test_fl_hc_clusters_all_updates_once_and_averages_inside(linkage, metric):
    sizes = (6, 9, 4, 7, 8, 5)
    run = trained({"name": "fl_hc", "at_round": 1, "n_clusters": 3, "linkage": linkage, "metric": metric},
                  two_rules(sizes), rounds=1)  # fmt: skip
    updates = updates_of_round_one(run)
    labels = AgglomerativeClustering(3, linkage=linkage, metric=metric).fit(updates).labels_
    assert groups(run.state.contexts.assigned) == groups(labels)
    moved = as_matrix(personalized(run)) - as_matrix(run.task.initial_model())
    for members in map(list, groups(labels)):
        mean = np.average(updates[members], axis=0, weights=np.array(sizes)[members])
        np.testing.assert_allclose(moved[members].reshape(len(members), -1), [mean] * len(members), atol=1e-12)
    firsts = [run.state.contexts.assigned.tolist().index(k) for k in range(3)]
    assert firsts == sorted(firsts)


def test_fl_hc_asks_everybody_in_the_round_that_clusters_and_then_keeps_the_clusters():
    results = list(simulation({"name": "fl_hc", "at_round": 2}, participation=0.5, rounds=4).rounds())
    assert [len(r.cohort) for r in results] == [0, 2, 4, 2, 2]
    assert np.isfinite(results[2].arrays["train_loss"]).all()
    assert results[2].scalars["bytes_up"] == 2 * results[1].scalars["bytes_up"]
    assert not results[1].clusters.any()
    assert results[2].clusters.tolist() == results[4].clusters.tolist() == [0, 1, 2, 3]


def test_fl_hc_with_a_threshold_merges_what_is_nearer():
    method = {"name": "fl_hc", "at_round": 1, "linkage": "complete"}
    tried = simulation(method | {"distance_threshold": 0.0}, two_rules(), rounds=1)
    heights = list(tried.rounds())[1].arrays["diagnostics.merge_distances"]
    assert len(matrices(tried)) == 6 and len(heights) == 5 and (np.diff(heights) >= 0).all()
    for merges in (3, 5):
        run = trained(method | {"distance_threshold": 1.0001 * float(heights[merges - 1])}, two_rules(), rounds=1)
        assert len(matrices(run)) == 6 - merges


def test_fl_hc_finds_two_kinds_of_clients():
    method = {"name": "fl_hc", "at_round": 2, "n_clusters": 2, "metric": "cosine", "linkage": "average"}
    results = list(simulation(method, two_rules(), rounds=2, local_steps=9, model=ZEROS).rounds())
    assert [r.scalars["diagnostics.ari"] for r in results[1:]] == [0.0, 1.0]


def test_fl_hc_takes_a_number_or_a_threshold():
    assert simulation("fl_hc").config.algorithm.options.n_clusters == 4
    assert simulation({"name": "fl_hc", "distance_threshold": 2}).config.algorithm.options.n_clusters is None
    with pytest.raises(InvalidConfig, match="keep one of them"):
        simulation({"name": "fl_hc", "distance_threshold": 2, "n_clusters": 3})
    with pytest.raises(InvalidConfig, match="take linkage: average"):
        simulation({"name": "fl_hc", "metric": "cosine"})


def test_fl_hc_with_more_clusters_than_clients_gives_each_its_own():
    run = trained({"name": "fl_hc", "at_round": 1, "n_clusters": 9})
    assert len(matrices(run)) == len(SIZES) and any("one a cluster" in n for n in run.task.notes)
    alone = trained({"name": "fl_hc", "at_round": 1}, federation((6,)))
    assert alone.state.contexts.assigned.tolist() == [0]
