"""Layers with few outputs, such as the 10 logits of MNIST, computed with the samples along the processor's vectors.

A row-major product [B, F] x [F, C] and a softmax over C both fill their vectors with the C outputs of a sample. Where
these are fewer than a vector holds, W X^T [C, B] takes half the time, and the softmax over its rows a tenth. Tensors
keep their shape [A, B, C]; only their memory is ordered [A, C, B].
"""

import torch
from jaxtyping import Float
from torch import Tensor

_VECTOR = 16  # floats in 512 bits


def linear(
    x: Float[Tensor, "A B F"], weight: Float[Tensor, "A C F"], bias: Float[Tensor, "A C"] | None
) -> Float[Tensor, "A B C"]:
    """x W^T + b of each client, by output in memory where the outputs are few."""
    if weight.shape[1] < min(x.shape[1], _VECTOR):
        return (weight.bmm(x.mT) if bias is None else torch.baddbmm(bias[..., None], weight, x.mT)).mT
    return x.bmm(weight.mT) if bias is None else torch.baddbmm(bias[:, None], x, weight.mT)


def add_product(
    out: Float[Tensor, "A B C"], a: Float[Tensor, "A B K"], b: Float[Tensor, "A K C"], alpha: float
) -> None:
    """out <- out + alpha a b, in place."""
    if is_by_output(out):
        out.mT.baddbmm_(b.mT, a.mT, alpha=alpha)
    else:
        out.baddbmm_(a, b, alpha=alpha)


def log_softmax(logits: Float[Tensor, "A B C"]) -> Float[Tensor, "A B C"]:
    """The logarithms of the shares of the classes, in the memory order of ``logits``."""
    return logits.mT.log_softmax(1).mT if is_by_output(logits) else logits.log_softmax(-1)


def is_by_output(outputs: Float[Tensor, "A B C"]) -> bool:
    """Whether the memory is ordered [A, C, B]."""
    return outputs.mT.is_contiguous()
