"""Distances and angles of stacked models against loops over pairs."""

import pytest
import torch

from engine.core.params import ClientParams
from engine.training.similarity import cosines, mean_squared_distance, squared_distances


def models(count: int, seed: int, dtype: torch.dtype = torch.float64) -> ClientParams:
    generator = torch.Generator().manual_seed(seed)
    drawn = {n: torch.randn(count, *shape, generator=generator) for n, shape in (("w", (3, 2)), ("b", (3,)))}
    return {n: p.to(dtype) for n, p in drawn.items()}


def flat(params: ClientParams) -> list[torch.Tensor]:
    return list(torch.cat([p.double().flatten(1) for p in params.values()], 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_and_cosines_of_all_pairs(dtype):
    a, b = models(2, 0, dtype), models(4, 1, dtype)
    pairs = [[(v, w) for w in flat(b)] for v in flat(a)]
    distances = torch.tensor([[((v - w) ** 2).sum() for v, w in line] for line in pairs])
    angles = torch.tensor([[v @ w / (v @ v).sqrt() / (w @ w).sqrt() for v, w in line] for line in pairs])
    torch.testing.assert_close(squared_distances(a, b), distances, rtol=1e-10, atol=0, check_dtype=False)
    torch.testing.assert_close(cosines(a, b), angles, rtol=1e-6, atol=1e-10, check_dtype=False)


def test_small_distances_between_large_models_are_exact():
    a = {n: p + 1e6 for n, p in models(3, 0).items()}
    moved = {n: p + 1e-3 for n, p in a.items()}
    expected = 9 * 1e-6
    assert squared_distances(moved, a).diagonal().tolist() == pytest.approx([expected] * 3, rel=1e-5)


def test_the_mean_squared_distance_is_over_all_pairs_of_different_models():
    b = models(4, 1)
    rows = flat(b)
    expected = sum(float(((v - w) ** 2).sum()) for v in rows for w in rows) / 12
    assert float(mean_squared_distance(b)) == pytest.approx(expected, rel=1e-12)
    assert float(mean_squared_distance(models(1, 0))) == 0


def test_a_model_of_zeros_has_cosine_zero_and_equal_models_distance_zero():
    zero, one = {"w": torch.zeros(1, 2)}, {"w": torch.tensor([[3.0, 4.0], [3.0, 4.0]])}
    assert cosines(zero, one).tolist() == [[0, 0]] and cosines(one, one).tolist() == [[1, 1], [1, 1]]
    assert squared_distances(one, one).tolist() == [[0, 0], [0, 0]]
