"""Layers of image models for a GPU: what PyTorch computes, with the same parameters."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.backends import Backend, choose_backend, image_functions, image_layers
from engine.backends.batched import Batched
from engine.backends.image_layers import for_gpu
from engine.backends.loop import Loop
from engine.core.params import ClientParams
from engine.models import Model, SplitModel
from tests.support import images
from tests.support.networks import batch_of, model_of, stacked

GPU, BF16 = torch.device("cuda"), torch.bfloat16
SHAPE = (3, 8, 8)


def with_layer(layer: nn.Module) -> Model:
    def make() -> SplitModel:
        return SplitModel(nn.Sequential(layer, nn.Flatten()), nn.Linear(1, 1)).double()

    return Model(make(), make)


def outputs_and_gradients(model: Model, x: Tensor) -> list[Tensor]:
    inputs = x.clone().requires_grad_()
    params = {n: p.detach().clone().requires_grad_() for n, p in model.module.named_parameters()}
    out = model.features(params, inputs)
    body = [params[n] for n in model.body]
    return [out, *torch.autograd.grad(out.sin().sum(), [inputs, *body])]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [(3, 1, 1), (3, 2, 1), (3, 2, 0), (2, 2, 0), (1, 1, 0), (1, 2, 0), ((1, 3), (2, 1), (0, 2)), ((3, 2), 1, 1)],
)
def test_a_layer_and_its_gradients_are_those_of_pytorch(kernel: Any, stride: Any, padding: Any, bias: bool) -> None:
    model = with_layer(nn.Conv2d(3, 4, kernel, stride, padding, bias=bias))
    product = for_gpu(model, has_kernels=False)
    assert not any(isinstance(layer, nn.Conv2d) for layer in product.module.modules())
    assert product.names == model.names
    x = torch.randn(2, 3, 7, 6, dtype=torch.float64)
    for found, expected in zip(outputs_and_gradients(product, x), outputs_and_gradients(model, x), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 4, 5),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
    ],
    ids=["large", "groups", "dilation", "padding by name", "circular padding"],
)
def test_other_layers_stay(layer: nn.Conv2d) -> None:
    model = with_layer(layer)
    assert for_gpu(model, has_kernels=True) is model


def results(backend: Backend, params: ClientParams) -> dict[str, Tensor]:
    """The gradient, the clipped gradient and a product with the Hessian."""
    batch = batch_of((3, 2), shape=SHAPE)
    out = {n: torch.zeros_like(p) for n, p in params.items()}
    found = {"losses": backend.accumulate(out, params, batch, 1.0, 0.0)}
    clipped = backend.clipped_sum(list(params), params, batch, 0.5).gradient
    product = backend.hessian_vector(params, {n: p.cos() for n, p in params.items()}, batch)
    for name, kind in (("gradient", out), ("clipped", clipped), ("hessian", product)):
        found |= {f"{name} {n}": values for n, values in kind.items()}
    return found


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The layers use kernels, which PyTorch computes here: in double precision, and faster than the interpreter."""
    calls = Counter[str]()

    def replace_kernel(name: str, compute: Callable[..., Any]) -> None:
        def counted(*inputs: Any) -> Any:
            calls[name] += 1
            return compute(*inputs)

        monkeypatch.setattr(image_functions, name, counted)

    for name in ("convolve", "input_gradient", "weight_gradient", "normalize", "normalize_gradient"):
        replace_kernel(name, getattr(images, name))
    return calls


@pytest.mark.parametrize(("name", "width"), [("resnet50", 2), ("wrn28_10", 1)])
def test_a_network_and_its_gradients_are_those_of_pytorch(name: str, width: int) -> None:
    model = model_of(name, shape=SHAPE, width=width)
    model.module.double()
    product = for_gpu(model, has_kernels=False)
    assert not any(isinstance(layer, nn.Conv2d) for layer in product.module.modules())
    x = torch.randn(2, *SHAPE, dtype=torch.float64)
    for found, expected in zip(outputs_and_gradients(product, x), outputs_and_gradients(model, x), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.slow
def test_a_network_of_several_clients_agrees_with_a_loop_over_them(kernels: Counter[str]) -> None:
    model = model_of("resnet18", shape=SHAPE, width=4)
    params = stacked(model, 2)
    expected = results(Loop(model), params)
    for has_kernels in (False, True):
        found = results(Batched(for_gpu(model, has_kernels)), params)
        assert len(kernels) == (5 if has_kernels else 0)
        for n, values in expected.items():
            torch.testing.assert_close(found[n], values, rtol=1e-7, atol=1e-8, msg=lambda text, n=n: f"{n}: {text}")


def test_normalizations_whose_sizes_are_no_powers_of_two_stay() -> None:
    norms = nn.GroupNorm(3, 6), nn.GroupNorm(2, 6), nn.GroupNorm(2, 4, affine=False)
    for layer in norms:
        model = with_layer(layer)
        assert for_gpu(model, has_kernels=True) is model
    model = with_layer(nn.GroupNorm(2, 4))
    assert for_gpu(model, has_kernels=False) is model is not for_gpu(model, has_kernels=True)


@pytest.mark.parametrize(
    ("rounded_to", "can_compile", "has_kernels"), [(None, True, False), (BF16, False, False), (BF16, True, True)]
)
def test_a_gpu_gets_kernels_in_bfloat16_where_they_can_be_compiled(
    monkeypatch: pytest.MonkeyPatch, rounded_to: torch.dtype | None, can_compile: bool, has_kernels: bool
) -> None:
    monkeypatch.setattr(image_layers, "can_compile", lambda: can_compile)
    model = replace(model_of("resnet18", shape=SHAPE, width=4), rounded_to=rounded_to)
    backend = choose_backend("auto", model, GPU)
    assert isinstance(backend, Batched)
    assert any(getattr(layer, "has_kernels", False) for layer in backend.model.module.modules()) == has_kernels


def test_without_a_gpu_nothing_is_compiled() -> None:
    assert not image_layers.can_compile()


def test_a_gpu_gets_them_and_a_cpu_does_not() -> None:
    model = model_of("resnet18", shape=SHAPE, width=4)
    on_gpu, on_cpu = choose_backend("auto", model, GPU), choose_backend("batched", model, torch.device("cpu"))
    assert isinstance(on_gpu, Batched) and isinstance(on_cpu, Batched)
    assert not any(isinstance(layer, nn.Conv2d) for layer in on_gpu.model.module.modules())
    assert on_cpu.model is model
