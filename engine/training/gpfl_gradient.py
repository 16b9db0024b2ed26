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

from engine.backends import FactoredGradient, FeatureGradients, narrow, of_classes, softmax_error, where_positive
from engine.core.params import ClientParams


def guided_gradients(
    params: ClientParams,
    features: Float[Tensor, "A B F"],
    y: Int[Tensor, "A B"],
    weight: Float[Tensor, "A B"],
    conditions: Float[Tensor, "A 2 F"],
    received: Float[Tensor, "A C F"],
    lam: float,
    is_one_norm: bool,
) -> FeatureGradients:
    """Losses L_P, and the gradients of L_P + L_alg + lam L_mlg. ``received`` are the embeddings C as received.

    ``is_one_norm``: L_mlg is one norm over the batch instead of the mean of the samples' norms.
    """
    embeddings, head = params["gce.weight"], params["head.weight"]
    affine = _Affine.of(params, conditions)
    gamma, beta = affine.out.transpose(1, 2).unsqueeze(3)  # [2, A, 1, F], as the features of both conditions
    scale = gamma + 1
    bent = features.new_empty(2, *features.shape)  # products of one condition are fast where they lie together
    torch.addcmul(beta, scale, features, out=bent).relu_()
    generic, personal = bent
    by_bent = torch.empty_like(bent)
    by_generic, by_personal = by_bent

    losses, error = softmax_error(narrow.linear(personal, head, params["head.bias"]), y, weight)
    torch.bmm(error, head, out=by_personal)
    gradients: dict[str, Tensor | FactoredGradient] = {
        "head.weight": FactoredGradient(error, personal),
        "head.bias": error.sum(1),
    }

    over_rows, over_classes = _inverse_length(generic), _inverse_length(embeddings)
    cosine = narrow.linear(generic, embeddings, None).mul_(over_rows).mul_(over_classes.mT)
    _, error = softmax_error(cosine, y, weight)
    error_cosine = error * cosine
    error.mul_(over_rows).mul_(over_classes.mT)
    torch.bmm(error, embeddings, out=by_generic)
    by_generic.addcmul_(generic, error_cosine.sum(2, keepdim=True).mul_(over_rows.square()), value=-1)
    along = error_cosine.sum(1).unsqueeze(2).mul_(over_classes.square())
    gradients["gce.weight"] = error.mT.bmm(generic).addcmul_(embeddings, along, value=-1)
    if lam:
        gap = of_classes(received, y).sub_(generic)
        if is_one_norm:
            gap.mul_((weight > 0).unsqueeze(2))
            share = _inverse(torch.linalg.vector_norm(gap, dim=(1, 2), keepdim=True))
        else:
            share = _inverse_length(gap).mul_(weight.unsqueeze(2))
        by_generic.addcmul_(gap, share, value=-lam)

    where_positive(bent, by_bent)
    by_scale = (by_bent * features).sum(2)
    gradients |= affine.gradients(conditions, torch.stack([by_scale, by_bent.sum(2)]).transpose(1, 2))
    by_bent.mul_(scale)
    return FeatureGradients(losses, gradients, by_generic.add_(by_personal))


_LAYERS = "gamma", "beta"


class _Affine(NamedTuple):
    """gamma and beta, and what their gradient needs, [2, A, 2, F]: LayerNorm(relu(linear(c))) of both conditions."""

    out: Tensor
    positive: Tensor  # relu(linear(c))
    normal: Tensor
    mean: Tensor
    rstd: Tensor
    weight: Tensor  # of the LayerNorm, [2, A, 1, F]

    @classmethod
    def of(cls, params: ClientParams, conditions: Float[Tensor, "A 2 F"]) -> "_Affine":
        positive = conditions.new_empty(2, *conditions.shape)
        for linear, which in zip(positive, _LAYERS, strict=True):
            weight, bias = params[f"cov.{which}.weight"], params[f"cov.{which}.bias"]
            torch.baddbmm(bias[:, None], conditions, weight.mT, out=linear)
        positive.relu_()
        normal, mean, rstd = torch.native_layer_norm(positive, positive.shape[-1:], None, None, 1e-5)
        weight, bias = (
            torch.stack([params[f"cov.{which}_norm.{kind}"] for which in _LAYERS]).unsqueeze(2)
            for kind in ("weight", "bias")
        )
        return cls(torch.addcmul(bias, normal, weight), positive, normal, mean, rstd, weight)

    def gradients(
        self, conditions: Float[Tensor, "A 2 F"], error: Float[Tensor, "2 A 2 F"]
    ) -> dict[str, Tensor | FactoredGradient]:
        """The gradients of all parameters, from the ``error`` at gamma and beta."""
        by_positive, _, _ = torch.ops.aten.native_layer_norm_backward(
            error * self.weight, self.positive, error.shape[-1:], self.mean, self.rstd, None, None, [True, False, False]
        )
        by_linear = where_positive(self.positive, by_positive)
        columns = by_linear, by_linear.sum(2), (error * self.normal).sum(2), error.sum(2)
        gradients: dict[str, Tensor | FactoredGradient] = {}
        for which, errors, bias, norm_weight, norm_bias in zip(_LAYERS, *columns, strict=True):
            gradients |= {f"cov.{which}.weight": FactoredGradient(errors, conditions), f"cov.{which}.bias": bias}
            gradients |= {f"cov.{which}_norm.weight": norm_weight, f"cov.{which}_norm.bias": norm_bias}
        return gradients


def _inverse_length(rows: Float[Tensor, "*A F"]) -> Float[Tensor, "*A 1"]:
    return _inverse(torch.linalg.vector_norm(rows, dim=-1, keepdim=True))


def _inverse(lengths: Tensor) -> Tensor:
    """1 / length, and 0 for length 0."""
    return lengths.reciprocal_().nan_to_num_(nan=torch.nan, posinf=0.0)
