"""Prototypes: the mean feature of each class over all clients, towards which clients pull their features."""

from torch import Tensor

from engine.backends import Extras, OnFeatures, add_silently, mean_cross_entropy, of_classes
from engine.core.params import ClientParams
from engine.models import Model


def towards_prototypes(lam: float) -> OnFeatures:
    """Cross-entropy, and lam times the mean squared distance of the features to the prototypes of their classes.

    Its extras are ``prototypes`` [S, C, F] and ``is_known`` [S, C]; a class without a prototype has no term.
    """

    def loss(model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras) -> Tensor:
        data = mean_cross_entropy(model.stacked_head_logits(params, features), y, weight)
        own, is_known = of_classes(extras["prototypes"], y), of_classes(extras["is_known"], y)
        gaps = (features - own).square().mean(-1) * is_known
        return add_silently(data, lam * (gaps * weight).sum(-1))

    return OnFeatures(loss)
