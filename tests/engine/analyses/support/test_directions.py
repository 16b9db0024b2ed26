"""Directions in the space of parameters: their norms and angles."""

import torch

from engine.analyses.support.directions import filter_normalized, gaussian, norm, orthonormal


def test_directions_have_the_filters_norms_and_leave_biases() -> None:
    params = {"weight": torch.tensor([[3.0, 4.0], [0.0, 0.0]]), "bias": torch.ones(2)}
    u = filter_normalized(gaussian(params, 0, 0), params)
    torch.testing.assert_close(u["weight"].norm(dim=1), torch.tensor([5.0, 0.0]))
    assert not u["bias"].any()


def test_gram_schmidt_gives_unit_vectors_at_right_angles() -> None:
    u, v = ({"w": torch.tensor(w, dtype=torch.float64)} for w in ([3.0, 0.0], [1.0, 1.0]))
    e, f = orthonormal(u, v)
    assert e["w"].tolist() == [1, 0] and f["w"].tolist() == [0, 1] and norm(f) == 1
