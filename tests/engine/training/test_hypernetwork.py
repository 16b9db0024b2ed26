"""The hypernetwork: initialization, output and derivatives."""

import math

import pytest
import torch

from engine.core.params import map_params
from engine.training.hypernetwork import emit, pull_back
from tests.support.builders import assert_equal, simulation
from tests.support.hypernetworks import NETWORK, SMALL, pairing


def started():
    """The state of a run before training, and its task."""
    run = simulation({"name": "pfedhn", **SMALL}, model=NETWORK)
    return run.state, run.task


def test_hidden_layers_are_relu_and_every_tensor_has_a_linear_output():
    psi = {
        "hidden.0.weight": torch.tensor([[2.0], [-1.0]]),
        "hidden.0.bias": torch.tensor([1.0, 0.0]),
        "output.w.weight": torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
        "output.w.bias": torch.tensor([[0.0, -3.0]]),
    }
    models = emit(psi, torch.tensor([[1.0], [-2.0]]))
    assert models["w"].tolist() == [[[3.0, -3.0]], [[0.0, -1.0]]]


def test_the_network_is_initialized_like_linear_layers_by_the_seed():
    state, task = started()
    shapes = {n: tuple(p.shape) for n, p in state.psi.items()}
    assert shapes["hidden.0.weight"] == (5, 3) and shapes["hidden.1.weight"] == (5, 5)
    assert {n: shapes[f"output.{n}.bias"] for n in task.model.names} == {
        n: tuple(p.shape) for n, p in task.initial_model().items()
    }
    assert 0.9 / math.sqrt(5) < state.psi["output.body.1.weight.weight"].abs().max() <= 1 / math.sqrt(5)
    assert_equal(state.psi, started()[0].psi)
    other = simulation({"name": "pfedhn", **SMALL}, model=NETWORK, seed=1).state
    assert not torch.equal(other.psi["hidden.0.weight"], state.psi["hidden.0.weight"])


def test_products_with_the_jacobian_match_finite_differences():
    state, _ = started()
    rows = state.embeddings[[2, 0, 3]]
    noise = torch.Generator().manual_seed(3)
    change = map_params(lambda p: torch.randn(p.shape, generator=noise, dtype=p.dtype), emit(state.psi, rows))
    pull, h = pull_back(state.psi, rows, change), 1e-6
    slope = map_params(torch.sub, pull.move(state.psi, 1.0), state.psi)
    for name, p in state.psi.items():
        direction = torch.randn(p.shape, generator=noise, dtype=p.dtype)
        up, down = (pairing(change, emit({**state.psi, name: p + s * h * direction}, rows)) for s in (1, -1))
        assert float((slope[name] * direction).sum()) == pytest.approx((up - down) / (2 * h) / 3, rel=1e-6, abs=1e-9)
    assert float(pull.norm()) == pytest.approx(math.sqrt(pairing(slope, slope)))
    for place in range(rows.numel()):
        push = torch.zeros(rows.numel(), dtype=rows.dtype).index_fill(0, torch.tensor(place), h).view_as(rows)
        up, down = (pairing(change, emit(state.psi, rows + s * push)) for s in (1, -1))
        assert float(pull.embeddings.flatten()[place]) == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-9)
