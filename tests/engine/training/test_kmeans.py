"""Coordinates and clusters of models, and changes of cluster."""

import tracemalloc

import numpy as np
import pytest
import torch

from engine.training.kmeans import Clustering, cluster, coordinates, transitions


def test_coordinates_preserve_distances_between_models():
    generator = torch.Generator().manual_seed(0)
    models = torch.randn(4, 50, generator=generator, dtype=torch.float64)[torch.tensor([0, 1, 0, 2, 3, 1, 0])]
    points = coordinates({"w": models})
    assert len(np.unique(points, axis=0)) == 4
    assert cluster(points, 6, 0).labels.max() == 3
    np.testing.assert_allclose(np.linalg.norm(points[0] - points[3]), (models[0] - models[3]).norm())


def clustering(points: np.ndarray) -> Clustering:
    """Two clusters: the even and the odd rows."""
    return Clustering(np.arange(len(points)) % 2, 0.0, 0, 0.0, points)


def model_distance(points: np.ndarray) -> float:
    assigned = torch.zeros(len(points), dtype=torch.int64)
    return float(clustering(points).diagnostics(assigned, assigned, None)["model_distance"])


def test_the_mean_distance_of_models_is_over_all_pairs():
    triangle = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    assert model_distance(triangle) == pytest.approx((3 + 4 + 5) / 3)
    assert model_distance(triangle + 1e6) == pytest.approx((3 + 4 + 5) / 3, rel=1e-9)
    assert model_distance(np.full((5, 3), 0.1)) == pytest.approx(0, abs=1e-12) and model_distance(triangle[:1]) == 0


def test_distances_of_many_models_need_a_matrix_of_them_and_no_cube():
    points = np.random.default_rng(0).normal(size=(250, 250))  # the cube: 125 MB
    tracemalloc.start()
    try:
        model_distance(points)
        clustering(points).cost(np.ones(250))
        assert tracemalloc.get_traced_memory()[1] < 10 * points.nbytes
    finally:
        tracemalloc.stop()


def test_the_cost_is_the_weighted_squared_distance_from_the_nearest_centroid():
    points = np.array([[0.0, 0.0], [10.0, 0.0], [2.0, 0.0], [10.0, 6.0]])  # centroids (1, 0) and (10, 3)
    assert clustering(points).cost(np.array([0.4, 0.3, 0.2, 0.1])) == pytest.approx(0.4 + 0.3 * 9 + 0.2 + 0.1 * 9)


def test_transitions_are_shares_of_members_by_previous_context():
    before, after = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert transitions(before, after).tolist() == [[1.0, 0.5], [0.0, 0.5]]
