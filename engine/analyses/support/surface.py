"""Loss surfaces: the mean cross-entropy of a model on a plane in its parameters.

    L(a, b) = loss of theta + a u + b v

The first layer is linear in its parameters, and its input does not depend on them. So its output is P + a Pu + b Pv:
three passes through it instead of one per point, and the rest of the network starts from there. Points are computed
together, in blocks of samples that fit into the cache.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from engine.analyses.support.probes import Samples
from engine.core.params import SharedParams
from engine.models import Model
from engine.task import Forward

_LINEAR_IN_PARAMETERS = (nn.Linear, nn.modules.conv._ConvNd, nn.Embedding)
_LARGE = (nn.modules.conv._ConvNd, nn.Embedding)  # a single one uses all cores, or the cache
_BLOCK_BYTES = 8 * 2**20  # the widest layer of the points computed together, on a CPU
_BLOCK_BYTES_GPU = 128 * 2**20
_STORED_BYTES = 64 * 2**20  # limit for stored outputs of layers


@dataclass(frozen=True)
class Plane:
    """theta + a u + b v for all ``a`` and ``b``; parameters of theta that are not in u stay fixed."""

    origin: SharedParams  # theta
    first: SharedParams  # u
    second: SharedParams  # v
    a: Tensor  # [A]
    b: Tensor  # [B]

    def row(self, b: Tensor) -> SharedParams:
        """theta + b v."""
        return {n: p + b * self.second[n] if n in self.second else p for n, p in self.origin.items()}

    def along(self, row: SharedParams, points: slice) -> SharedParams:
        """The points of a row, stacked; parameters that do not change are not expanded."""
        a = self.a[points]
        return {
            n: torch.addcmul(p, self.first[n], a.view(-1, *[1] * p.dim())) if n in self.first else p
            for n, p in row.items()
        }


def surface(
    model: Model,
    plane: Plane,
    samples: Samples,
    *,
    forward: Forward | None = None,
    progress: Callable[[float], None] = lambda share: None,
    is_shortened: bool = True,
) -> np.ndarray:
    """[B, A] mean losses, double. ``forward`` replaces the model's; ``is_shortened`` allows to skip the first layer."""
    may_skip = is_shortened and forward is None and model.rounded_to is None
    way = _choose_method(model, plane.origin, samples.x[:1], may_skip)
    total = torch.zeros(len(plane.b), len(plane.a), dtype=torch.float64, device=samples.y.device)
    size = max(1, _STORED_BYTES // (3 * way.width))
    points_at_once = way.points_together(min(size, len(samples)), len(plane.a), samples.x.device)
    with torch.no_grad():
        for start in range(0, len(samples), size):
            x, y = samples.x[start : start + size], samples.y[start : start + size]
            seen, predict = (
                (plane, forward or model.logits) if way.skipped is None else _plane_after(model, way.skipped, plane, x)
            )
            for i, b in enumerate(plane.b):
                progress((start + len(y) * i / len(plane.b)) / len(samples))
                total[i] += _row_losses(seen, seen.row(b), predict, x, y, points_at_once)
    return (total / len(samples)).cpu().numpy()


def mean_loss(model: Model, params: SharedParams, samples: Samples, forward: Forward | None = None) -> float:
    """The mean loss at one point."""
    size, total = rows_at_once(model, params, samples), 0.0
    with torch.no_grad():
        for start in range(0, len(samples), size):
            logits = (forward or model.logits)(params, samples.x[start : start + size])
            total += float(F.cross_entropy(logits, samples.y[start : start + size], reduction="sum"))
    return total / len(samples)


def rows_at_once(model: Model, params: SharedParams, samples: Samples) -> int:
    """How many samples can pass through the network at once, with activations stored for derivatives."""
    return max(1, _STORED_BYTES // sum(size for *_, size in _layers_run(model, params, samples.x[:1])))


@dataclass(frozen=True)
class _Method:
    """How the points of a plane are computed."""

    skipped: str | None  # the first layer, if it can be skipped
    width: int  # bytes of a sample's widest activation after it
    is_large: bool  # whether convolutions or embeddings remain

    def points_together(self, num_samples: int, most: int, device: torch.device) -> int:
        if self.is_large and device.type == "cpu":
            return 1
        room = _BLOCK_BYTES if device.type == "cpu" else _BLOCK_BYTES_GPU
        return int(np.clip(room // (num_samples * self.width), 2, max(2, most)))


def _choose_method(model: Model, params: SharedParams, x: Tensor, may_skip: bool) -> _Method:
    ran = _layers_run(model, params, x)
    names = [name for name, layer, _ in ran if next(layer.parameters(), None) is not None]
    may_skip = may_skip and {n.rpartition(".")[0] for n in model.names} == set(names)  # none outside the layers
    is_linear = bool(names) and isinstance(model.module.get_submodule(names[0]), _LINEAR_IN_PARAMETERS)
    skipped = names[0] if may_skip and is_linear and names.count(names[0]) == 1 else None
    behind = ran[[name for name, *_ in ran].index(skipped) :] if skipped else ran
    rest = behind[1:] if skipped else behind
    return _Method(skipped, max(size for *_, size in behind), any(isinstance(layer, _LARGE) for _, layer, _ in rest))


def _layers_run(model: Model, params: SharedParams, x: Tensor) -> list[tuple[str, nn.Module, int]]:
    """(name, layer, output bytes) of every innermost layer, in the order in which a sample passes them."""
    module = copy.deepcopy(model.module)
    ran: list[tuple[str, nn.Module, int]] = []
    for name, layer in module.named_modules():
        if next(layer.children(), None) is None:
            layer.register_forward_hook(lambda layer, x, y, name=name: ran.append((name, layer, y.nbytes)))
    with torch.no_grad():
        functional_call(module, {n: params[n] for n in model.names}, (x,))
    return ran


class _GivenOutput(nn.Module):
    """Replaces a layer by its given output."""

    value: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("value", torch.empty(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.value


def _plane_after(model: Model, name: str, plane: Plane, x: Tensor) -> tuple[Plane, Forward]:
    """The plane after layer ``name``, whose output replaces its parameters."""
    rest = copy.deepcopy(model.module)
    layer = rest.get_submodule(name)
    seen = _input_of(rest, layer, {n: plane.origin[n] for n in model.names}, x)

    def behind(params: SharedParams) -> SharedParams:
        own = {n.removeprefix(f"{name}."): p for n, p in params.items() if n.rpartition(".")[0] == name}
        kept = {n: p for n, p in params.items() if n.rpartition(".")[0] != name}
        return kept | {f"{name}.value": functional_call(layer, own, (seen,))}

    moved = Plane(behind(plane.origin), behind(plane.first), behind(plane.second), plane.a, plane.b)
    rest.set_submodule(name, _GivenOutput())
    return moved, lambda params, x: functional_call(rest, params, (x,))


def _input_of(module: nn.Module, layer: nn.Module, params: SharedParams, x: Tensor) -> Tensor:
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    functional_call(module, params, (x,))
    handle.remove()
    return seen[0]


def _row_losses(plane: Plane, row: SharedParams, predict: Forward, x: Tensor, y: Tensor, points_at_once: int) -> Tensor:
    """[A] summed losses of the samples along a row."""
    parts = []
    for begin in range(0, len(plane.a), points_at_once):
        params = plane.along(row, slice(begin, begin + points_at_once))
        if points_at_once == 1:
            logits = predict({n: p[0] if n in plane.first else p for n, p in params.items()}, x)[None]
        else:
            dims = {n: 0 if n in plane.first else None for n in params}
            logits = vmap(predict, in_dims=(dims, None))(params, x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.expand(len(logits), -1).flatten(), reduction="none")
        parts.append(loss.view(len(logits), -1).sum(1, dtype=torch.float64))
    return torch.cat(parts)
