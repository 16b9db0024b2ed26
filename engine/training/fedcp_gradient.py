"""The gradient of FedCP's cross-entropy by hand, for many clients at once: autograd on its small tensors takes longer.

With the direction v, the personal head h and the global one g, and a gradient written d:

    z = f v,  n = LayerNorm(linear(z)),  (s_1, s_2) = relu(n a + b),  r = sigmoid(s_1 - s_2)
    logits = h(r f) + g(f - r f),  e = softmax(logits) - onehot(y),  D = e (W_h - W_g)
    d f = e W_g + r D + v d z,  d s_1 = -d s_2 = r (1 - r) f D                                      where s > 0
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.backends import FactoredGradient, FeatureGradients, narrow, softmax_error, where_positive
from engine.core.params import ClientParams


def split_gradients(
    params: ClientParams,
    general: ClientParams,
    features: Float[Tensor, "A B F"],
    y: Int[Tensor, "A B"],
    weight: Float[Tensor, "A B"],
    direction: Float[Tensor, "A F"],
) -> FeatureGradients:
    """The cross-entropy and its gradients by policy and personal head; ``general`` is the global head."""
    difference = params["head.weight"] - general["head.weight"]
    turned = features * direction[:, None]
    linear = torch.baddbmm(params["cpn.bias"][:, None], turned, params["cpn.weight"].mT)
    normal, mean, rstd = torch.native_layer_norm(linear, linear.shape[-1:], None, None, 1e-5)
    scale = params["cpn_norm.weight"][:, None]
    scores = torch.addcmul(params["cpn_norm.bias"][:, None], normal, scale).relu_()
    first, second = scores.chunk(2, dim=2)
    share = (first - second).sigmoid_()
    personal = share * features

    logits = narrow.linear(features, general["head.weight"], params["head.bias"] + general["head.bias"])
    narrow.add_product(logits, personal, difference.mT, 1.0)
    losses, error = softmax_error(logits, y, weight)
    gap = error.bmm(difference)
    by_features = error.bmm(general["head.weight"]).addcmul_(share, gap)
    by_share = torch.ops.aten.sigmoid_backward(gap.mul_(features), share)
    by_scores = where_positive(scores, torch.cat([by_share, by_share.neg()], dim=2))
    by_linear, _, _ = torch.ops.aten.native_layer_norm_backward(
        by_scores * scale, linear, linear.shape[-1:], mean, rstd, None, None, [True, False, False]
    )
    by_features.addcmul_(by_linear.bmm(params["cpn.weight"]), direction[:, None])
    gradients: dict[str, Tensor | FactoredGradient] = {
        "head.weight": FactoredGradient(error, personal),
        "head.bias": error.sum(1),
        "cpn.weight": FactoredGradient(by_linear, turned),
        "cpn.bias": by_linear.sum(1),
        "cpn_norm.weight": normal.mul_(by_scores).sum(1),
        "cpn_norm.bias": by_scores.sum(1),
    }
    return FeatureGradients(losses, gradients, by_features)
