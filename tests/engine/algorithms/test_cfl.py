"""CFL: when a cluster splits, how it is divided, and what is recorded."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from engine.aggregators import Aggregator, Combined
from engine.aggregators.norm_clip import NormClip, NormClipOptions
from engine.algorithms.cfl import bipartition
from engine.channel.dials import Dials
from engine.simulation.simulate import Simulation
from engine.training.clustering import cosine_similarity
from tests.support import reference
from tests.support.builders import federation, personalized, simulation, trained
from tests.support.clusters import TRUTH, ZEROS, groups, matrices, training_loss, two_rules
from tests.support.reference import as_matrix, batches_of

SPLITTING = {"name": "cfl", "eps1": 100.0, "eps2": 0.0, "warmup": 1}


def test_cfl_splits_after_the_warmup_and_each_half_runs_fedavg():
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


def with_rule(rule: Aggregator, **changed: Any) -> Simulation:
    """A run that splits from round 1 on, with this aggregator."""
    run = simulation(SPLITTING | {"warmup": 0}, two_rules(), model=ZEROS, **changed)
    run.dials = Dials(run.config.seed, run.task.num_clients, aggregator=rule)
    return run


def test_a_split_moves_no_model_twice():
    """Where updates are clipped, each model is at most their norm from what its clients received."""
    run = with_rule(NormClip(NormClipOptions(at=0.01)), rounds=3)
    rounds = run.rounds()
    next(rounds)
    received, before = matrices(run), run.state.contexts.assigned
    for _ in rounds:
        models, assigned = matrices(run), run.state.contexts.assigned
        for k, model in enumerate(models):
            (parent,) = set(before[assigned == k].tolist())
            assert np.linalg.norm(model - received[parent]) <= 0.01 + 1e-12
        received, before = models, assigned
    assert len(received) > 2


class Counting(Aggregator):
    """The mean, which remembers of how many uploads."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def combine(self, delta: torch.Tensor, weights: torch.Tensor, num_malicious: int) -> Combined:
        self.counts.append(len(delta))
        return Combined(weights)


def test_a_split_aggregates_only_its_two_halves_again():
    run = with_rule(Counting(), rounds=3)
    before, splits = 1, []
    for result in list(run.rounds())[1:]:
        after = int(result.clusters.max()) + 1
        splits.append((before, after))
        before = after
    assert len(run.dials.aggregator.counts) == sum(k + 2 * (new - k) for k, new in splits)
    assert any(1 < k < new for k, new in splits)


def test_cfl_records_the_norms_of_the_mean_and_the_largest_update():
    results = list(simulation({"name": "cfl", "warmup": 9}, two_rules(), rounds=1, model=ZEROS).rounds())
    run = simulation("fedavg", two_rules(), model=ZEROS)
    updates = [reference.sgd(np.zeros((3, 6)), b, 0.1) for b in batches_of(run, 1)]
    mean, largest = (results[1].arrays[f"diagnostics.{n}_update_norm"] for n in ("mean", "max"))
    np.testing.assert_allclose(mean, [np.linalg.norm(np.mean(updates, axis=0))])
    np.testing.assert_allclose(largest, [max(map(np.linalg.norm, updates))])


@pytest.mark.parametrize(("side", "splits"), [("eps1", False), ("eps2", False), (None, True)])
def test_cfl_splits_only_if_the_mean_is_small_and_an_update_large(side, splits):
    first = list(simulation({"name": "cfl", "warmup": 9}, two_rules(), rounds=1).rounds())[1]
    mean, largest = (first.arrays[f"diagnostics.{n}_update_norm"][0] for n in ("mean", "max"))
    thresholds = {"eps1": 1.01 * mean, "eps2": 0.99 * largest}
    if side:
        thresholds[side] = mean if side == "eps1" else largest
    run = trained({"name": "cfl", "warmup": 0, **thresholds}, two_rules(), rounds=1)
    assert (len(matrices(run)) == 2) is splits


def test_cfl_never_splits_two_clients_or_records_norms_without_participants():
    run = simulation(SPLITTING, federation((6, 6)), rounds=4)
    assert all(not r.clusters.any() for r in list(run.rounds())[1:])
    results = list(simulation(SPLITTING | {"warmup": 0}, two_rules(), rounds=4, participation=0.5).rounds())
    norms = results[-1].arrays["diagnostics.mean_update_norm"]
    before, there = results[-2].clusters, results[-1].cohort
    assert len(norms) == before.max() + 1 > 1
    np.testing.assert_array_equal(np.isnan(norms), ~np.isin(np.arange(len(norms)), before[there]))


def test_cfl_assigns_absent_clients_by_their_training_loss():
    for seed in range(3):
        run = trained(SPLITTING | {"warmup": 0}, two_rules(), rounds=1, participation=0.67, seed=seed, local_steps=9)
        absent = set(range(6)) - set(run.task.cohort(1).clients.tolist())
        models, assigned = matrices(run), run.state.contexts.assigned
        assert len(models) == 2 and len(absent) == 2
        for client in absent:
            assert assigned[client] == np.argmin([training_loss(run, W, client) for W in models])


def test_the_bipartition_minimizes_the_largest_similarity_across_it():
    for seed in range(5):
        updates = torch.randn(7, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        similarity = cosine_similarity({"w": updates})

        def across(first: tuple[int, ...], similarity=similarity) -> float:
            return similarity[np.ix_(first, [i for i in range(7) if i not in first])].max()

        cuts = [first for size in (1, 2, 3) for first in combinations(range(7), size)]
        found = tuple(np.flatnonzero(bipartition({"w": updates})).tolist())
        assert 0 not in found and across(found) == min(map(across, cuts))


def test_cfl_notes_if_it_can_never_split():
    assert any("this is fedavg" in n for n in simulation("cfl", rounds=20).task.notes)
    assert not simulation("cfl", rounds=21).task.notes
    assert any("raise participation" in n for n in simulation("cfl", rounds=21, participation=0.5).task.notes)
