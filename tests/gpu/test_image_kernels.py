"""Layers of image models on a GPU against PyTorch in double precision."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.backends import Backend, choose_backend, image_functions
from engine.backends.image_kernels import Shape
from engine.backends.image_layers import can_compile
from engine.backends.loop import Loop
from engine.core.devices import allow_tf32
from engine.core.params import ClientParams
from engine.federation.batches import Batch
from engine.models import Model
from tests.support.images import CONVOLUTIONS, NORMALIZATIONS, convolution, group_norm
from tests.support.networks import batch_of, model_of, stacked

GPU = torch.device("cuda")
SHAPE = (3, 16, 16)
NETWORKS: dict[str, dict[str, Any]] = {"resnet18": {"width": 16}, "resnet50": {"width": 8}, "wrn28_10": {"width": 1}}
OF_KERNELS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # over the largest value
pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def float32_after_each_test() -> Iterator[None]:
    yield
    allow_tf32(False)


def error_of(found: Tensor, expected: Tensor) -> float:
    return float((found.cpu().double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", OF_KERNELS)
def test_a_convolution_and_its_gradients_are_those_of_pytorch(case: tuple[Any, ...], dtype: torch.dtype) -> None:
    for found, expected in convolution(*case, device="cuda", dtype=dtype):
        assert error_of(found, expected) < OF_KERNELS[dtype]


@pytest.mark.parametrize("case", NORMALIZATIONS)
@pytest.mark.parametrize("dtype", OF_KERNELS)
def test_a_normalization_and_its_gradients_are_those_of_pytorch(case: tuple[int, ...], dtype: torch.dtype) -> None:
    for found, expected in group_norm(*case, device="cuda", dtype=dtype):
        assert error_of(found, expected) < OF_KERNELS[dtype]


def gradients(model: Model, params: ClientParams, batch: Batch, precision: str | None = None) -> Tensor:
    """Of a loop over clients on the CPU, or of all clients at once on the GPU, in one vector."""
    backend: Backend = Loop(model)
    if precision is not None:
        allow_tf32(precision == "tf32")
        backend = choose_backend("batched", in_bfloat16(model) if precision == "bfloat16" else model, GPU)
        params = {n: p.to(GPU, torch.float32) for n, p in params.items()}
        assert batch.weight is not None
        x, weight = batch.x.to(GPU, torch.float32), batch.weight.to(GPU, torch.float32)
        batch = replace(batch, x=x, y=batch.y.to(GPU), weight=weight)
    out = {n: torch.zeros_like(p) for n, p in params.items()}
    backend.accumulate(out, params, batch, 1.0, 0.0)
    return torch.cat([p.flatten().cpu().double() for p in out.values()])


def in_bfloat16(model: Model) -> Model:
    return replace(model, rounded_to=torch.bfloat16)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_float32_agree_with_double_precision(name: str) -> None:
    model = model_of(name, shape=SHAPE, **NETWORKS[name])
    params, batch = stacked(model, 3), batch_of((4, 2, 3), shape=SHAPE)
    expected = gradients(model, params, batch)
    assert (gradients(model, params, batch, "float32") - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_bfloat16_use_kernels_that_are_as_exact_as_a_loop(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small networks are badly conditioned: the loop in bfloat16 is off by up to its gradient's norm, too."""
    can_compile.cache_clear()
    calls = list[Shape]()
    convolve = image_functions.convolve
    monkeypatch.setattr(
        image_functions, "convolve", lambda x, w, shape: [calls.append(shape), convolve(x, w, shape)][1]
    )
    model = model_of(name, shape=SHAPE, **NETWORKS[name])
    params, batch = stacked(model, 3), batch_of((4, 2, 3), shape=SHAPE)
    expected = gradients(model, params, batch)
    found, loop = gradients(model, params, batch, "bfloat16"), gradients(in_bfloat16(model), params, batch)
    assert calls
    assert (found - expected).norm() < 1.5 * (loop - expected).norm()


def test_less_exact_precisions_differ_more() -> None:
    model = model_of("resnet18", shape=SHAPE, width=16)
    params, batch = stacked(model, 2), batch_of((4, 3), shape=SHAPE)
    expected = gradients(model, params, batch)
    errors = [(gradients(model, params, batch, p) - expected).norm() for p in ("float32", "tf32", "bfloat16")]
    assert all(exact < rough for exact, rough in pairwise(errors))
