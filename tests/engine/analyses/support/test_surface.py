"""Losses on a plane: the fast computation gives the same values."""

import numpy as np
import pytest
import torch

from engine.analyses.support.directions import filter_normalized, gaussian
from engine.analyses.support.probes import Samples
from engine.analyses.support.surface import Plane, surface
from engine.config.schema import parse_experiment
from engine.models import Model, SplitModel, build_model


def example(model, shape, dtype):
    """A network, a plane around its start and six samples."""
    raw = {"dataset": "digits", "partition": "iid", "model": model, "algorithms": ["fedavg"]}
    network = build_model(parse_experiment(raw).runs()[0].model, shape, 3)
    origin = {n: p.to(dtype) for n, p in network.initial(0).items()}
    u, v = (filter_normalized(gaussian(origin, 0, i), origin) for i in (0, 1))
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, *shape, generator=generator, dtype=dtype), torch.tensor([0, 1, 2, 0, 1, 1])
    a, b = torch.linspace(-1, 1, 5, dtype=dtype), torch.linspace(-2, 1, 3, dtype=dtype)
    return network, Plane(origin, u, v, a, b), Samples(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("mlr", (5,)),
        ({"name": "dnn", "hidden": 4}, (5,)),
        ({"name": "har_mlp", "hidden": 4}, (5,)),
        ({"name": "cnn", "hidden": 4}, (16, 16)),
        ({"name": "har_cnn", "hidden": 4}, (2, 28)),
    ],
)
def test_skipping_the_first_layer_changes_nothing(model, shape, dtype) -> None:
    network, plane, samples = example(model, shape, dtype)
    short, long = (surface(network, plane, samples, is_shortened=way) for way in (True, False))
    np.testing.assert_allclose(short, long, rtol=1e-12 if dtype == torch.float64 else 1e-6)


@pytest.mark.parametrize(
    "model",
    [
        {"name": "text_embedding", "buckets": 20, "dim": 3, "hidden": 4},
        {"name": "char_lstm", "vocabulary": 20, "dim": 3, "hidden": 4},
        {"name": "char_transformer", "vocabulary": 20, "dim": 4, "num_heads": 2},
    ],
)
def test_embedding_tables_are_skipped_too(model) -> None:
    network, plane, _ = example(model, (6,), torch.float64)
    tokens = Samples(torch.randint(0, 20, (7, 6)).double(), torch.randint(0, 3, (7,)))
    short, long = (surface(network, plane, tokens, is_shortened=way) for way in (True, False))
    np.testing.assert_allclose(short, long, rtol=1e-12)


def test_a_first_layer_behind_a_parameter_is_not_skipped() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.layer = torch.nn.Parameter(torch.ones(1, 5)), torch.nn.Linear(5, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.scale * x).relu()

    def make() -> SplitModel:
        return SplitModel(Scaled(), torch.nn.Linear(4, 3)).double()

    _, plane, samples = example("mlr", (5,), torch.float64)
    network = Model(make(), make)
    origin = network.initial(0)
    moved = Plane(origin, gaussian(origin, 0, 0), gaussian(origin, 0, 1), plane.a, plane.b)
    short, long = (surface(network, moved, samples, is_shortened=way) for way in (True, False))
    np.testing.assert_allclose(short, long, rtol=1e-12)


def test_a_surface_does_not_depend_on_the_block_size(monkeypatch) -> None:
    network, plane, samples = example({"name": "dnn", "hidden": 4}, (5,), torch.float64)
    whole = surface(network, plane, samples)
    monkeypatch.setattr("engine.analyses.support.surface._STORED_BYTES", 400)
    monkeypatch.setattr("engine.analyses.support.surface._BLOCK_BYTES", 1)
    np.testing.assert_allclose(surface(network, plane, samples), whole, rtol=1e-12)


def test_every_point_has_the_loss_of_its_parameters() -> None:
    network, plane, samples = example("mlr", (5,), torch.float64)
    found = surface(network, plane, samples)
    there = {n: p + plane.a[3] * plane.first[n] + plane.b[1] * plane.second[n] for n, p in plane.origin.items()}
    expected = torch.nn.functional.cross_entropy(network.logits(there, samples.x), samples.y)
    assert found[1, 3] == pytest.approx(float(expected), rel=1e-12)
