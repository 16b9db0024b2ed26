"""A plane through models: the principal components of their flattened parameters.

S models span at most S dimensions, so the components come from the eigenvectors of their S x S Gram matrix:

    X^T u / sqrt(value)     X [S, P] centered, X X^T u = value u

The matrix of all models is never built: it is processed in blocks of parameters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from engine.core.errors import Unsupported
from engine.core.params import SharedParams

BLOCK = 2**18  # parameters of each model per block


@dataclass(frozen=True)
class Plane:
    """``center`` and orthonormal ``axes`` [D, ...], in double; ``explained`` [D]: shares of the variance."""

    center: SharedParams
    axes: dict[str, Tensor]
    explained: Float[np.ndarray, "D"]

    def holds(self, params: SharedParams) -> bool:
        """Whether ``params`` have the same names and shapes."""
        return all(n in params and params[n].shape == center.shape for n, center in self.center.items())

    def place(self, params: SharedParams) -> Float[np.ndarray, "D"]:
        total = torch.zeros(len(self.explained), dtype=torch.float64)
        for name, center in self.center.items():
            away = (params[name].double() - center).flatten()
            total += (self.axes[name].reshape(-1, len(away)) @ away).cpu()
        return total.numpy()


def spread(models: Sequence[SharedParams]) -> float:
    """sum_i ||w_i - mean w||^2."""
    return sum(float(block.square().sum()) for _, block in _blocks(models))


def fit(models: Sequence[SharedParams]) -> Plane:
    """The plane in which ``models`` differ most. Axes without variance are zero.

    An axis points to the model furthest along it. Raises Unsupported if a model is not finite.
    """
    gram = sum(block @ block.T for _, block in _blocks(models))
    if not isinstance(gram, Tensor) or not bool(gram.isfinite().all()):
        raise Unsupported("the models are not finite; choose the best round")
    values, vectors = torch.linalg.eigh(gram)
    # An additional axis of zeros, for a single model.
    values, vectors = (pad(t, (0, 1))[..., :2] for t in (values.flip(0).clamp(min=0), vectors.flip(1)))
    noise = len(models) * torch.finfo(values.dtype).eps * values.max()
    toward = torch.sign(vectors.gather(0, vectors.abs().argmax(0, keepdim=True)))
    scaled = vectors * toward * torch.where(values > noise, values.rsqrt(), 0.0)
    whole = float(gram.trace())
    return Plane(
        {n: sum((m[n].double() for m in models[1:]), models[0][n].double()) / len(models) for n in models[0]},
        _axes(models, scaled),
        (values / whole if whole > 0 else values).cpu().numpy(),
    )


def _axes(models: Sequence[SharedParams], scaled: Float[Tensor, "S D"]) -> dict[str, Tensor]:
    parts: dict[str, list[Tensor]] = {}
    for name, block in _blocks(models):
        parts.setdefault(name, []).append(scaled.T @ block)
    return {n: torch.cat(own, dim=1).view(-1, *models[0][n].shape) for n, own in parts.items()}


def _blocks(models: Sequence[SharedParams]) -> Iterator[tuple[str, Float[Tensor, "S block"]]]:
    """The centered columns of the matrix of all models, in double."""
    for name in models[0]:
        flat = [m[name].flatten() for m in models]
        for begin in range(0, len(flat[0]), BLOCK):
            block = torch.stack([row[begin : begin + BLOCK] for row in flat]).double()
            yield name, block - block.mean(0)
