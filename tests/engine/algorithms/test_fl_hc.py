"""FL+HC: one clustering of all updates, then FedAvg within the clusters."""

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering

from engine.core.errors import InvalidConfig
from tests.support import reference
from tests.support.builders import SIZES, federation, personalized, simulation, trained
from tests.support.clusters import ZEROS, groups, matrices, two_rules
from tests.support.reference import as_matrix, batches_of


def updates_of_round_one(run) -> np.ndarray:
    start = as_matrix(run.task.initial_model())
    return np.stack([(reference.sgd(start, b, 0.1) - start).ravel() for b in batches_of(run, 1)])


@pytest.mark.parametrize(
    ("linkage", "metric"),
    [("ward", "euclidean"), ("average", "euclidean"), ("complete", "manhattan"), ("single", "cosine")],
)
def test_fl_hc_clusters_all_updates_once_and_averages_within_clusters(linkage, metric):
    sizes = (6, 9, 4, 7, 8, 5)
    run = trained(
        {"name": "fl_hc", "at_round": 1, "n_clusters": 3, "linkage": linkage, "metric": metric},
        two_rules(sizes),
        rounds=1,
    )
    updates = updates_of_round_one(run)
    labels = AgglomerativeClustering(3, linkage=linkage, metric=metric).fit(updates).labels_
    assert groups(run.state.contexts.assigned) == groups(labels)
    moved = as_matrix(personalized(run)) - as_matrix(run.task.initial_model())
    for members in map(list, groups(labels)):
        mean = np.average(updates[members], axis=0, weights=np.array(sizes)[members])
        np.testing.assert_allclose(moved[members].reshape(len(members), -1), [mean] * len(members), atol=1e-12)
    firsts = [run.state.contexts.assigned.tolist().index(k) for k in range(3)]
    assert firsts == sorted(firsts)


def test_fl_hc_includes_all_clients_in_its_clustering_round_and_keeps_the_clusters():
    results = list(simulation({"name": "fl_hc", "at_round": 2}, participation=0.5, rounds=4).rounds())
    assert [len(r.cohort) for r in results] == [0, 2, 4, 2, 2]
    assert np.isfinite(results[2].arrays["train_loss"]).all()
    assert results[2].scalars["bytes_up"] == 2 * results[1].scalars["bytes_up"]
    assert not results[1].clusters.any()
    assert results[2].clusters.tolist() == results[4].clusters.tolist() == [0, 1, 2, 3]


def test_fl_hc_with_a_threshold_merges_closer_clusters():
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


def test_fl_hc_needs_either_a_number_or_a_threshold():
    assert simulation("fl_hc").config.algorithm.options.n_clusters == 4
    assert simulation({"name": "fl_hc", "distance_threshold": 2}).config.algorithm.options.n_clusters is None
    with pytest.raises(InvalidConfig, match="mutually exclusive; set only one"):
        simulation({"name": "fl_hc", "distance_threshold": 2, "n_clusters": 3})
    with pytest.raises(InvalidConfig, match="use linkage: average"):
        simulation({"name": "fl_hc", "metric": "cosine"})


def test_fl_hc_with_more_clusters_than_clients_has_one_per_client():
    run = trained({"name": "fl_hc", "at_round": 1, "n_clusters": 9})
    assert len(matrices(run)) == len(SIZES) and any("one a cluster" in n for n in run.task.notes)
    alone = trained({"name": "fl_hc", "at_round": 1}, federation((6,)))
    assert alone.state.contexts.assigned.tolist() == [0]
