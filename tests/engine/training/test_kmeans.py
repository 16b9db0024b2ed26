"""Coordinates and clusters of models, and changes of cluster."""

import numpy as np
import torch

from engine.training.kmeans import cluster, coordinates, transitions


def test_coordinates_preserve_distances_between_models():
    generator = torch.Generator().manual_seed(0)
    models = torch.randn(4, 50, generator=generator, dtype=torch.float64)[torch.tensor([0, 1, 0, 2, 3, 1, 0])]
    points = coordinates({"w": models})
    assert len(np.unique(points, axis=0)) == 4
    assert cluster(points, 6, 0).labels.max() == 3
    np.testing.assert_allclose(np.linalg.norm(points[0] - points[3]), (models[0] - models[3]).norm())


def test_transitions_are_shares_of_members_by_previous_context():
    before, after = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert transitions(before, after).tolist() == [[1.0, 0.5], [0.0, 0.5]]
