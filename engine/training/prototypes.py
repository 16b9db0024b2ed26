"""Prototypes: the mean feature of each class over all clients, toward which clients pull their features."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from engine.backends import Extras, OnFeatures, add_silently, mean_cross_entropy, of_classes
from engine.core.params import ClientParams
from engine.federation.batches import Cohort
from engine.models import Model
from engine.task import Task
from engine.training.features import ByClass


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


def averaged(
    task: Task,
    features: ByClass,
    prototypes: Float[Tensor, "C F"],
    is_known: Bool[Tensor, "C"],
    cohort: Cohort,
    num_values: Int[Tensor, "S"] | None = None,
) -> tuple[Float[Tensor, "C F"], Bool[Tensor, "C"]]:
    """The prototypes from the class means that the participants send, and for which classes there are some.

    The means of a class are weighted by its samples; a class that nobody sends keeps its prototype. ``num_values``: how
    many values each participant sends, if not those of all classes.
    """
    means, counts = features.means, features.counts
    reference = prototypes.where((counts > 0)[..., None], 0)  # a class that the client lacks is not sent
    uploads, received = {"prototypes": means}, {"prototypes": reference}
    arrived = task.channel.deliver(uploads, received, cohort, cohort.weights, num_values, is_change=False)
    rows = arrived.rows
    off = (arrived.params["prototypes"] - means[rows]) * counts[rows][..., None]  # 0 for means that arrive as sent
    seen = counts[rows].sum(0)
    average = (features.sums[rows] + off).sum(0) / seen.clamp(min=1)[:, None]
    return average.where((seen > 0)[:, None], prototypes), is_known | (seen > 0)
