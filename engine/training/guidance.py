"""The gradient of GPFL's loss by hand, for many clients at once: autograd on its many small tensors takes longer.

With both conditions c_k, k = 0 (g) and 1 (p_i), and a gradient written d:

    gamma, beta = LayerNorm(relu(linear(c)))
    f_k = relu((gamma_k + 1) phi + beta_k)
    d phi = sum_k (gamma_k + 1) d f_k,  d gamma_k = sum_B phi d f_k,  d beta_k = sum_B d f_k        where f_k > 0
    cos = f_0 C^T / |f_0| / |C|,  e = softmax(cos) - onehot(y),  G = e / |f_0| / |C|
    d f_0 = G C - f_0 rowsum(e cos) / |f_0|^2 + lam (f_0 - C_y) / |f_0 - C_y|
    d C = G^T f_0 - C colsum(e cos) / |C|^2
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.backends import softmax_error
from engine.core.params import ClientParams


class Slopes(NamedTuple):
    """Gradients of a loss on features, of A clients."""

    losses: Float[Tensor, "A"]  # recorded; may leave out terms that the gradients have
    gradients: ClientParams
    features: Float[Tensor, "A B F"]


def guided_slopes(
    params: ClientParams,
    features: Float[Tensor, "A B F"],
    y: Int[Tensor, "A B"],
    weight: Float[Tensor, "A B"],
    conditions: Float[Tensor, "A 2 F"],
    targets: Float[Tensor, "A B F"],
    lam: float,
    is_one_norm: bool,
) -> Slopes:
    """Losses L_P, and the gradients of L_P + L_alg + lam L_mlg. ``targets`` are C_y as received.

    ``is_one_norm``: L_mlg is one norm over the batch instead of the mean of the samples' norms.
    """
    embeddings, head = params["gce.weight"], params["head.weight"]
    scale, of_gamma = _affine(params, "gamma", conditions)
    shift, of_beta = _affine(params, "beta", conditions)
    scale = (scale + 1).unsqueeze(2)
    bent = torch.addcmul(shift.unsqueeze(2), scale, features.unsqueeze(1)).relu_()  # [A, 2, B, F]
    generic, personal = bent.unbind(1)
    slope = torch.empty_like(bent)
    by_generic, by_personal = slope.unbind(1)

    losses, error = softmax_error(torch.baddbmm(params["head.bias"][:, None], personal, head.mT), y, weight)
    torch.bmm(error, head, out=by_personal)
    gradients = {"head.weight": error.mT.bmm(personal), "head.bias": error.sum(1)}

    over_rows, over_classes = _inverse_length(generic), _inverse_length(embeddings)
    cosine = generic.bmm(embeddings.mT).mul_(over_rows).mul_(over_classes.mT)
    _, error = softmax_error(cosine, y, weight)
    turn = error * cosine
    error.mul_(over_rows).mul_(over_classes.mT)
    torch.bmm(error, embeddings, out=by_generic)
    by_generic.addcmul_(generic, turn.sum(2, keepdim=True).mul_(over_rows.square()), value=-1)
    along = turn.sum(1).unsqueeze(2).mul_(over_classes.square())
    gradients["gce.weight"] = error.mT.bmm(generic).addcmul_(embeddings, along, value=-1)
    if lam:
        gap = generic - targets
        if is_one_norm:
            gap.mul_((weight > 0).unsqueeze(2))
            share = _inverse(torch.linalg.vector_norm(gap, dim=(1, 2), keepdim=True))
        else:
            share = _inverse_length(gap).mul_(weight.unsqueeze(2))
        by_generic.addcmul_(gap, share, value=lam)

    slope.mul_(bent > 0)
    by_features = (slope * scale).sum(1)
    gradients |= _affine_slopes(params, "beta", conditions, of_beta, slope.sum(2))
    gradients |= _affine_slopes(params, "gamma", conditions, of_gamma, slope.mul_(features.unsqueeze(1)).sum(2))
    return Slopes(losses, gradients, by_features)


class _Affine(NamedTuple):
    """What the gradient of LayerNorm(relu(linear(c))) needs, [A, 2, ...]."""

    positive: Tensor  # relu(linear(c))
    normal: Tensor
    mean: Tensor
    rstd: Tensor


def _affine(params: ClientParams, which: str, conditions: Tensor) -> tuple[Tensor, _Affine]:
    layer, norm = f"cov.{which}", f"cov.{which}_norm"
    linear = torch.baddbmm(params[f"{layer}.bias"][:, None], conditions, params[f"{layer}.weight"].mT).relu_()
    normal, mean, rstd = torch.native_layer_norm(linear, linear.shape[-1:], None, None, 1e-5)
    out = torch.addcmul(params[f"{norm}.bias"][:, None], normal, params[f"{norm}.weight"][:, None])
    return out, _Affine(linear, normal, mean, rstd)


def _affine_slopes(params: ClientParams, which: str, conditions: Tensor, of: _Affine, slope: Tensor) -> ClientParams:
    layer, norm = f"cov.{which}", f"cov.{which}_norm"
    by_normal = slope * params[f"{norm}.weight"][:, None]
    by_positive, _, _ = torch.ops.aten.native_layer_norm_backward(
        by_normal, of.positive, of.positive.shape[-1:], of.mean, of.rstd, None, None, [True, False, False]
    )
    by_linear = by_positive.mul_(of.positive > 0)
    return {
        f"{norm}.weight": (slope * of.normal).sum(1),
        f"{norm}.bias": slope.sum(1),
        f"{layer}.weight": by_linear.mT.bmm(conditions),
        f"{layer}.bias": by_linear.sum(1),
    }


def _inverse_length(rows: Float[Tensor, "*A F"]) -> Float[Tensor, "*A 1"]:
    return _inverse(torch.linalg.vector_norm(rows, dim=-1, keepdim=True))


def _inverse(lengths: Tensor) -> Tensor:
    """1 / length, and 0 for length 0."""
    return lengths.reciprocal().masked_fill_(lengths == 0, 0.0)
