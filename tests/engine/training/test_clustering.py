"""Averages within clusters, the choice of a cluster, and the similarity of updates."""

import numpy as np
import torch

from engine.channel.plain_channel import mean_inside
from engine.training.clustering import cosine_similarity, least_loss


def test_a_cluster_averages_its_participants_or_keeps_its_model():
    models, copies = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[10.0], [20.0], [40.0]])
    weights = torch.tensor([0.125, 0.5, 0.375])
    found = mean_inside({"w": models}, {"w": copies}, torch.tensor([2, 0, 2]), weights)["w"]
    assert found.tolist() == [[20.0], [2.0], [32.5]]


def test_a_client_chooses_the_first_of_equal_finite_models():
    losses = torch.tensor([[2.0, 1.0, 1.0], [torch.nan, torch.inf, 5.0], [torch.nan] * 3])
    assert least_loss(losses).tolist() == [1, 2, 0]


def test_an_update_of_zero_has_similarity_zero():
    found = cosine_similarity({"w": torch.tensor([[0.0, 0.0], [3.0, 4.0], [-6.0, -8.0]])})
    np.testing.assert_allclose(found, [[0, 0, 0], [0, 1, -1], [0, -1, 1]], atol=1e-12)
