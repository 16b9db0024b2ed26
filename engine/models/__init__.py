"""Models: a body and a head, applied functionally with stacked parameters. One file per model."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, vmap

from engine.core.registry import Options
from engine.core.streams import key

Params = dict[str, Tensor]
_drawing = threading.Lock()  # all threads initialize modules from one generator
_NORMALIZATIONS = (nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)


class ModelOptions(Options):
    """Options of all models."""

    init: Literal["default", "zeros"] = Field(
        "default", title="Start", description="default: PyTorch's initialization; zeros: all parameters are zero."
    )


class FasterAlone:
    """A layer with a way for one client on a CPU that ``vmap`` cannot stack. It takes that way while ``is_alone``."""

    is_alone = False


class SplitModel(nn.Module):
    """logits = head(body(x)). Parameter names start with ``body.`` or ``head.``.

    ``widest`` is the number of values of a sample's largest intermediate result, for models where it is much larger
    than the sample: it limits how many samples are evaluated together.
    """

    def __init__(self, body: nn.Module, head: nn.Module, widest: int = 0) -> None:
        super().__init__()
        self.body, self.head, self.widest = body, head, widest

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class OneColumn(nn.Linear):
    """A linear layer with one output z, expanded to the two logits (0, z)."""

    def __init__(self, in_features: int) -> None:
        super().__init__(in_features, 1)

    def forward(self, x: Tensor) -> Tensor:
        z = super().forward(x)
        return torch.cat([torch.zeros_like(z), z], dim=-1)


@dataclass(frozen=True)
class Model:
    """A network's architecture and loss options. Parameters are arguments, never read from the module."""

    module: SplitModel
    make: Callable[[], SplitModel]
    init: str = "default"
    l2: float = 0.0
    rounded_to: torch.dtype | None = None  # of the computation, if less exact than the parameters

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.module.named_parameters())

    @property
    def body(self) -> tuple[str, ...]:
        return tuple(n for n in self.names if n.startswith("body."))

    @property
    def head(self) -> tuple[str, ...]:
        return tuple(n for n in self.names if n.startswith("head."))

    @property
    def has_linear_head(self) -> bool:
        """Whether the head is one linear layer with a bias and an output for each class, unlike ``OneColumn``."""
        return type(self.module.head) is nn.Linear and {*self.head} == {"head.weight", "head.bias"}

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Parameter names per module, from input to output; a normalization is part of the layer before it."""
        grouped: dict[str, list[str]] = {}
        last = ""
        for name in self.names:
            owner = name.rpartition(".")[0]
            is_same_part = last.partition(".")[0] == owner.partition(".")[0]
            if not (is_same_part and self._is_norm(owner)):
                last = owner
            grouped.setdefault(last, []).append(name)
        return tuple(map(tuple, grouped.values()))

    @property
    def norms(self) -> tuple[str, ...]:
        """Parameter names of the normalizations: their scales and shifts, found by the type of the module."""
        return tuple(n for n in self.names if self._is_norm(n.rpartition(".")[0]))

    def _is_norm(self, owner: str) -> bool:
        return isinstance(self.module.get_submodule(owner), _NORMALIZATIONS)

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.module.parameters())

    @cached_property
    def l2_of(self) -> dict[str, float]:
        """The L2 strength of each parameter in the training loss: weights only, not biases."""
        return {n: self.l2 if self.l2 and n.endswith("weight") else 0.0 for n in self.names}

    def initial(self, seed: int, which: int = 0) -> Params:
        """Initial parameters number ``which``, from the stream (seed, "initial model", which): device-independent."""
        if self.init == "zeros":
            return {n: torch.zeros_like(p) for n, p in self.module.named_parameters()}
        with _cpu_generator_seeded(key(seed, "initial model", which)):
            drawn = self.make()
        return {n: p.detach() for n, p in drawn.named_parameters()}

    def laid_out(self, params: Params) -> Params:
        """The same parameters, with kernels [out, in, H, W] in the memory order that is fastest on a CPU.

        That is channels last in networks with 2-D max-pooling: what a convolution returns has the order of its kernel,
        and pooling then reads whole pixels. Networks with group normalization would be 3 % slower. ``vmap`` does not
        take this order.
        """
        if not self._pools:
            return params
        return {  # ``contiguous`` would leave kernels of one channel as they are
            n: p.clone(memory_format=torch.channels_last) if p.dim() == 4 and p.device.type == "cpu" else p
            for n, p in params.items()
        }

    @cached_property
    def _pools(self) -> bool:
        return any(isinstance(m, nn.MaxPool2d) for m in self.module.modules())

    def logits(self, params: Params, x: Tensor) -> Tensor:
        return self._call(self.module, params, x)

    def features(self, params: Params, x: Tensor) -> Tensor:
        """The output of the body; ``params`` may include the head."""
        inner = {n.removeprefix("body."): p for n, p in params.items() if n.startswith("body.")}
        return self._call(self.module.body, inner, x)

    def head_logits(self, params: Params, features: Tensor) -> Tensor:
        """The output of the head on given features; ``params`` may include the body."""
        inner = {n.removeprefix("head."): p for n, p in params.items() if n.startswith("head.")}
        return self._call(self.module.head, inner, features)

    def stacked_head_logits(self, params: Params, features: Tensor) -> Tensor:
        """``head_logits`` of A clients on their own features [A, B, F]; ``params`` may include the body."""
        own = {n: params[n] for n in self.head}
        if self.has_linear_head and self.rounded_to is None:
            return torch.baddbmm(own["head.bias"][:, None], features, own["head.weight"].mT)
        return vmap(self.head_logits)(own, features)

    def _call(self, module: nn.Module, params: Params, x: Tensor) -> Tensor:
        """The module's output, computed with ``rounded_to`` and returned in the precision of the parameters."""
        if self.rounded_to is None:
            return functional_call(module, params, (x,))
        rounded = {n: p.to(self.rounded_to) for n, p in params.items()}
        if any(isinstance(layer, nn.Embedding) for layer in module.modules()):  # x has token ids
            return functional_call(module, rounded, (x,)).to(next(iter(params.values())).dtype)
        return functional_call(module, rounded, (x.to(self.rounded_to),)).to(x.dtype)


def num_parameters(choice: Any, input_shape: tuple[int, ...], num_classes: int) -> int:
    """Counts the parameters of a model without allocating them. Raises Unsupported, like ``build_model``."""
    try:
        with torch.device("meta"):
            return build_model(choice, input_shape, num_classes).num_parameters
    except (NotImplementedError, RuntimeError):  # a model that reads its weights while it is built
        return build_model(choice, input_shape, num_classes).num_parameters


def build_model(choice: Any, input_shape: tuple[int, ...], num_classes: int) -> Model:
    """Builds the model of a ``Choice`` in the registry. Raises Unsupported if it cannot take the input."""
    from engine.core.registry import MODELS

    recipe = MODELS.get(choice.name).make(choice.options)
    make = lambda: recipe.build(input_shape, num_classes)  # noqa: E731
    with _drawing:
        module = make()
    return Model(module, make, choice.options.init, getattr(choice.options, "l2", 0.0))


@contextmanager
def _cpu_generator_seeded(seed: int) -> Iterator[None]:
    """Seed the generator from which PyTorch initializes modules for the block, and restore it.

    Only the CPU's: ``torch.manual_seed`` also formats the stack for each kind of GPU that this machine lacks.
    """
    with _drawing:
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            torch.default_generator.set_state(before)
