"""FedRoD: one body under two heads, a generic one for all and a personal one that adds to it.

Chen, Chao. On Bridging Generic and Personalized Federated Learning for Image Classification. ICLR 2022.
https://arxiv.org/abs/2107.00778, Algorithm 1.

    (phi_i, g_i) <- (phi, g)
    E times, for a batch B:
        z <- g_i(phi_i(x))                                      generic logits
        (phi_i, g_i) <- (phi_i, g_i) - lr grad CE(z + log n_i, y)
        h_i <- h_i - lr grad_h CE(z + h_i(phi_i(x)), y)         z and phi_i(x) held fixed
    (phi, g) <- sum_i (m_i / m) (phi_i, g_i)                    over the cohort

Idea: Adding the log of a client's class counts n_i to the logits (balanced softmax) takes its label skew out of what
body and generic head learn, so that they fit every client. The personal head then learns only what the generic one
lacks for this client, and both are added.

When: labels differ, and the global model matters as much as the personalized ones. Needs: a body under a linear head
(dnn, cnn).

Sent: phi and g, both ways. Kept: h_i.

Cost: one local training a round, one head more than FedAvg; bytes as FedAvg.

Newcomers: a personal head from the common initial head, trained for one participation together with copies of body and
generic head; it is kept and added to the server's.

Deviations: the two losses are taken at the same parameters in one step. A class that a client does not have is masked
in its generic loss. Both heads are one linear layer each, so their sum is an ordinary model of the same architecture:
evaluated and exported as such.

Pitfalls: the personal loss must not reach the body or the generic head, and prediction needs both heads: FL-bench lets
it reach the body and predicts with the personal head alone. The class counts are used in training, not in prediction.
"""

from dataclasses import dataclass

from torch import Tensor

from engine.backends import (
    Extras,
    FeatureGradients,
    OnFeatures,
    add_silently,
    linear_head_gradients,
    mean_cross_entropy,
)
from engine.backends.narrow import linear
from engine.core.params import ClientParams, SharedParams, broadcast, gather, in_client_order, scatter
from engine.core.registry import ALGORITHMS, NoOptions
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.models import Model
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import part, require_body, require_linear_head
from engine.training.local import Trained, local_sgd
from engine.training.roles import PersonalModels

PERSONAL = "personal."  # in front of the personal head's names during training


class Hparams(NoOptions):
    """None."""


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # phi and g
    personal_params: ClientParams  # h_i


@ALGORITHMS.register(
    "fedrod",
    title="FedRoD",
    paper="Chen, Chao, ICLR 2022",
    family="Split models",
    style=Style(hue="rust", dash="solid", symbol="cross"),
    privacy=("client",),
)
@dataclass(frozen=True)
class FedRod(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "fedrod")
        require_linear_head(task, "fedrod")
        return State(task.initial_model(), part(task.initial_clients(), task.model.head))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        heads = gather(state.personal_params, cohort.clients)
        trained = self._train(state.global_params, heads, cohort, task)
        uploads = part(trained.params, task.model.names)
        new = State(
            task.channel.aggregate(uploads, state.global_params, cohort, cohort.weights),
            scatter(state.personal_params, _personal(trained.params), cohort.clients),
        )
        return new, Diagnostics(trained.loss, trained.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        return _with_both_heads(state.global_params, state.personal_params, task.num_clients)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        heads = broadcast(part(task.initial_model(), task.model.head), newcomers.size)
        trained = self._train(state.global_params, heads, newcomers, task)
        own = in_client_order(_personal(trained.params), newcomers.clients)
        return _with_both_heads(state.global_params, own, newcomers.size)

    def _train(self, received: SharedParams, heads: ClientParams, cohort: Cohort, task: Task) -> Trained:
        counts = task.data.class_counts[cohort.clients].to(task.dtype)
        start = broadcast(received, cohort.size) | {PERSONAL + n: p for n, p in heads.items()}
        objective = OnFeatures(_loss, gradients=_gradients)
        return local_sgd(task, start, cohort, objective=objective, extras={"log_counts": counts.log()})


def _loss(model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras) -> Tensor:
    """Balanced softmax for body and generic head; cross-entropy of the sum, which is recorded, for the personal head.

    log 0 = -inf removes a class that the client does not have from the generic softmax.
    """
    generic = model.stacked_head_logits(params, features)
    personal = model.stacked_head_logits(_personal(params), features.detach())
    balanced = mean_cross_entropy(generic + extras["log_counts"][:, None], y, weight)
    return add_silently(mean_cross_entropy(generic.detach() + personal, y, weight), balanced)


def _gradients(
    model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> FeatureGradients:
    """The gradient of ``_loss``; the body only gets the gradient of the balanced softmax."""
    balanced = linear_head_gradients(params, features, y, weight, offset=extras["log_counts"][:, None])
    generic = linear(features, params["head.weight"], params["head.bias"])
    personal = linear_head_gradients(_personal(params), features, y, weight, offset=generic)
    heads = balanced.gradients | {PERSONAL + n: g for n, g in personal.gradients.items()}
    return FeatureGradients(personal.losses, heads, balanced.features)


def _personal(params: dict[str, Tensor]) -> dict[str, Tensor]:
    """The personal head under the names of a head."""
    return {n.removeprefix(PERSONAL): p for n, p in params.items() if n.startswith(PERSONAL)}


def _with_both_heads(shared: SharedParams, heads: ClientParams, size: int) -> Predictor:
    """The model with one head that is the sum of both: they are linear on the same features."""
    summed = {n: shared[n] + p for n, p in heads.items()}
    return Predictor(broadcast(shared, size) | summed, is_per_client=True)
