"""FedPHP: each client inherits its earlier models and lets them teach the one it received.

Li, Zhan, Shao, Li, Song. FedPHP: Federated Personalization with Inherited Private Models. ECML PKDD 2021.
https://doi.org/10.1007/978-3-030-86486-6_36

    w_i  <- w
    E times, for a batch B:
        w_i <- w_i - lr grad [(1 - lam) f_i(w_i; B) + lam transfer(p_i, w_i; B)]
    mu_i <- min(mu, mu n_i / n)                                 n_i earlier participations of n expected
    p_i  <- mu_i p_i + (1 - mu_i) w_i
    w    <- sum_i (m_i / m) w_i                                 over the cohort

Idea: FedAvg overwrites what a client has learned whenever it sends a new global model. Here the client keeps a moving
average p_i of its models, uses that, and holds the features (mmd) or the predictions (kl) of the received model near
those of p_i while it trains. The memory grows longer with every participation.

When: clients lose what they have learned each time they receive the global model. Needs: a body under the head (dnn,
cnn) for transfer="mmd"; kl runs on every model.

Sent: w, both ways. Kept: p_i and the number of participations.

Cost: gradients and bytes as FedAvg; for each gradient one forward pass of p_i.

Newcomers: their first participation: local training from w by cross-entropy alone, p_i is the result.

Deviations: the first participation has no p_i yet: cross-entropy alone, with weight 1. mmd is the squared discrepancy
of the two sets of features under a sum of Gaussian kernels, of 1/4, 1/2, 1, 2 and 4 times the mean squared distance of
two different features of the batch, which counts as a constant. kl is KL(p_i || w_i), both softened by temperature 4,
without the factor 16. n is rounds times share of participants, at least 1.

Pitfalls: PFLlib evaluates another model than p_i and gives the cross-entropy weight 0 by default. A linear model has no
features apart from its input: mmd needs a body.

Diagnostics: inherited, mean mu_i over the cohort.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from engine.backends import (
    Extras,
    FeatureGradients,
    OnFeatures,
    add_silently,
    linear_head_gradients,
    mean_cross_entropy,
)
from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    each,
    gather,
    lerp_each,
    scatter,
)
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.models import Model
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import require_body
from engine.training.discrepancy import Gaussians, discrepancy_gradient, squared_discrepancy
from engine.training.local import SGD, Live, Trained, for_each_client, local_sgd
from engine.training.roles import PersonalModels

TEMPERATURE = 4.0
KERNEL = Gaussians((4.0, 2.0, 1.0, 0.5, 0.25), is_relative=True)


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("transfer",)

    mu: float = Field(
        0.9,
        ge=0,
        le=1,
        title="μ",
        description="Maximum weight of the past model in p_i; larger = longer memory, 0 = none.",
        json_schema_extra={"tune": (0, 1, "lin")},
    )
    lam: float = Field(
        0.05,
        ge=0,
        le=1,
        title="λ",
        description="Share of the transfer from p_i in the loss; 0 is cross-entropy alone.",
        json_schema_extra={"tune": (0.005, 0.5, "log")},
    )
    transfer: Literal["mmd", "kl"] = Field(
        "mmd", description="What p_i teaches: its features (mmd, needs a body) or its predictions (kl)."
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # p_i
    participations: Int[Tensor, "N"]


@ALGORITHMS.register(
    "fedphp",
    title="FedPHP",
    paper="Li et al., ECML PKDD 2021",
    family="Knowledge transfer",
    style=Style(hue="vermilion", dash="dash", symbol="cross"),
    privacy=("client",),
)
@dataclass(frozen=True)
class FedPhp(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.transfer == "mmd":
            require_body(task, "fedphp with transfer: mmd")
        if self.hparams.lam == 1:
            task.note("fedphp with lam=1: after the first participation nothing is learned from labels")
        if self.hparams.mu == 0:
            task.note("fedphp with mu=0: nothing is inherited, each p_i is the client's last local model")
        return State(task.initial_model(), task.initial_clients(), torch.zeros_like(task.data.train.sizes))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        past = gather(state.personal_params, cohort.clients)
        earlier = state.participations[cohort.clients]
        lam = self.hparams.lam * (earlier > 0).to(task.dtype)
        w = self._train(broadcast(state.global_params, cohort.size), past, lam, cohort, task)
        # If clients are drawn independently, how many take part must not change the model of a client.
        participation = task.training.participation if task.is_poisson else cohort.size / task.num_clients
        expected = task.training.rounds * participation
        share = self._share_of_past(earlier.to(task.dtype), expected)
        new = State(
            task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights),
            scatter(state.personal_params, lerp_each(w.params, past, share), cohort.clients),
            state.participations.index_copy(0, cohort.clients, earlier + 1),
        )
        return new, Diagnostics(w.loss, w.gradient_evaluations, {"inherited": share.mean()})

    def _train(
        self, start: ClientParams, past: ClientParams, lam: Float[Tensor, "S"], cohort: Cohort, task: Task
    ) -> Trained:
        """Local training, taught by the models ``past`` where there are any."""
        if not bool(lam.any()):
            return local_sgd(task, start, cohort)
        sgd, by_features = SGD.of(task), self.hparams.transfer == "mmd"
        transfer, gradients = (_from_features, _gradients) if by_features else (_from_predictions, None)
        objective = OnFeatures(partial(_loss, transfer), gradients=gradients)

        def step(c: Live, batch: Batch) -> Tensor:
            taught = (
                c.task.backend.features(c.past, batch.x)
                if by_features
                else c.task.backend.logits(c.task.model, c.past, batch.x)
            )
            return sgd.step(c, "w", batch, objective=objective, extras={"lam": c.lam, "past": taught})

        fixed, same = {"past": past, "lam": lam}, ("fedphp", sgd.options, self.hparams)
        out = for_each_client(task, cohort.plan, {"w": start}, step, fixed=fixed, same=same)
        return Trained(out.w, out.loss, cohort.plan.gradient_evaluations)

    def _share_of_past(self, earlier: Float[Tensor, "S"], expected: float) -> Float[Tensor, "S"]:
        """mu_i, which grows to mu over the expected number of participations."""
        return (earlier / max(1.0, expected)).clamp(max=1) * self.hparams.mu

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        first = local_sgd(task, broadcast(state.global_params, newcomers.size), newcomers)
        return Predictor.of_everyone(first.params, newcomers)


def discrepancy(
    a: Float[Tensor, "*A B F"], b: Float[Tensor, "*A B F"], weight: Float[Tensor, "*A B"]
) -> Float[Tensor, "*A"]:
    """Squared MMD of two sets of features with the same ``weight``, which sums to 1, under the sum of the kernels."""
    return squared_discrepancy(a, b, weight, KERNEL)


def _loss(
    transfer: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    model: Model,
    params: ClientParams,
    features: Tensor,
    y: Tensor,
    weight: Tensor,
    extras: Extras,
) -> Tensor:
    """(1 - lam) data + lam transfer for the gradient; the data term alone is recorded."""
    logits = model.stacked_head_logits(params, features)
    data = mean_cross_entropy(logits, y, weight)
    past = _as_long_as(features, extras["past"])
    return add_silently(data, extras["lam"] * (transfer(features, logits, past, weight) - data))


def _gradients(
    model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> FeatureGradients:
    """The gradient of ``_loss`` with the transfer of features."""
    past, lam = _as_long_as(features, extras["past"]), extras["lam"]
    data = linear_head_gradients(params, features, y, weight, 1 - lam)
    pull = discrepancy_gradient(features, past, weight, KERNEL)
    return data._replace(features=data.features.addcmul_(pull, each(lam, pull)))


def _as_long_as(features: Tensor, past: Tensor) -> Tensor:
    """The teacher's part without padding, where the batch has none."""
    return past[:, : features.shape[1]]


def _from_features(features: Tensor, logits: Tensor, past: Tensor, weight: Tensor) -> Tensor:
    """The discrepancy from p_i's features."""
    return discrepancy(features, past, weight)


def _from_predictions(features: Tensor, logits: Tensor, past: Tensor, weight: Tensor) -> Tensor:
    """The divergence from p_i's predictions."""
    own, taught = ((z / TEMPERATURE).log_softmax(-1) for z in (logits, past))
    return ((taught.exp() * (taught - own)).sum(-1) * weight).sum(-1)
