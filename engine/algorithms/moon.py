"""MOON: local training with features pulled toward the global model's and away from the client's last ones.

Li, He, Song. Model-Contrastive Federated Learning. CVPR 2021. https://arxiv.org/abs/2103.16257, Algorithm 1.

    w_i <- w
    E times, for a batch B:
        s_b <- cos(phi_i(x_b), phi_w(x_b))                      phi_w: body of w as received
        r_b <- cos(phi_i(x_b), phi'_i(x_b))                     phi'_i: the client's last body
        w_i <- w_i - lr grad [f_i(w_i; B) + mu mean_b log(1 + exp((r_b - s_b) / tau))]
    phi'_i <- body of w_i
    w   <- sum_i (m_i / m) w_i                                  over the cohort

Idea: On skewed data local training makes the features worse than those of the global model. So each sample's feature is
contrasted with two others: it should be more similar to that of the global model than to that of the client's last
local model.

When: one model is wanted, and label skew spoils the features that clients learn. Needs: a body under the head (dnn,
cnn).

Sent: w, both ways. Kept: phi'_i, the body after the client's last participation.

Cost: gradients and bytes as FedAvg; for each gradient one forward pass each of phi_w and phi'_i, so that with one
hidden layer it takes about 2.4 times as long.

Newcomers: use w.

Deviations: features are the output of the body; the paper adds a projection of two layers to the network. In a
client's first participation its last body is the received one, so both similarities agree and the term is the constant
log 2; the published code takes the initial model. The recorded loss is the data term. A feature of zeros has cosine 0
with everything, and gradient 0. A model without a body (mlr) is refused.

Pitfalls: the loss written with exp(s / tau) overflows for small tau; the form above does not. Most published gains come
from the projection layers, a larger network.
"""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from engine.backends import Extras, OnFeatures, add_silently, mean_cross_entropy
from engine.core.params import ClientParams, SharedParams, broadcast, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.models import Model
from engine.task import Diagnostics, Task
from engine.training.body_head import part, require_body
from engine.training.local import SGD, Live, Trained, for_each_client, local_sgd
from engine.training.roles import OneGlobalModel


class Hparams(Options):
    mu: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="μ",
        description="Weight of the contrast; larger = features nearer to the global model's, 0 is FedAvg.",
        json_schema_extra={"tune": [0.01, 10.0, "log"]},
    )
    tau: float = Field(
        0.5,
        gt=0,
        le=1e6,
        title="τ",
        description="Temperature of the contrast; larger = weaker, and the same for all samples.",
        json_schema_extra={"tune": [0.05, 5.0, "log"]},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # phi'_i
    participations: Int[Tensor, "N"]


@ALGORITHMS.register(
    "moon",
    title="MOON",
    paper="Li et al., CVPR 2021",
    family="Baselines",
    style=Style(hue="grey", dash="dashdot", symbol="star"),
    privacy=("client",),
)
@dataclass(frozen=True)
class Moon(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "moon")
        if self.hparams.mu == 0:
            task.note("moon with mu=0: nothing is contrasted, this is fedavg")
        last = part(task.initial_clients(), task.model.body)
        return State(task.initial_model(), last, torch.zeros_like(task.data.train.sizes))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        earlier = state.participations[cohort.clients]
        mu = self.hparams.mu * (earlier > 0).to(task.dtype)
        trained = self._train(state, mu, cohort, task)
        new = State(
            task.channel.aggregate(trained.params, state.global_params, cohort, cohort.weights),
            scatter(state.personal_params, part(trained.params, task.model.body), cohort.clients),
            state.participations.index_copy(0, cohort.clients, earlier + 1),
        )
        return new, Diagnostics(trained.loss, trained.gradient_evaluations)

    def _train(self, state: State, mu: Float[Tensor, "S"], cohort: Cohort, task: Task) -> Trained:
        """Local training with the contrast, weighted by ``mu``, which is 0 for a client without a last body."""
        start = broadcast(state.global_params, cohort.size)
        if not bool(mu.any()):
            return local_sgd(task, start, cohort)
        received, last = part(start, task.model.body), gather(state.personal_params, cohort.clients)
        sgd, objective = SGD.of(task), OnFeatures(partial(_loss, self.hparams.tau))

        def step(c: Live, batch: Batch) -> Tensor:
            extras = {
                "mu": c.mu,
                "received": c.task.backend.features(c.received, batch.x),
                "last": c.task.backend.features(c.last, batch.x),
            }
            return sgd.step(c, "w", batch, objective=objective, extras=extras)

        fixed, same = {"mu": mu, "received": received, "last": last}, ("moon", sgd.options, self.hparams)
        out = for_each_client(task, cohort.plan, {"w": start}, step, fixed=fixed, same=same)
        return Trained(out.w, out.loss, cohort.plan.gradient_evaluations)


def _loss(
    tau: float, model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> Tensor:
    """The data term, which is recorded, and the contrast."""
    data = mean_cross_entropy(model.stacked_head_logits(params, features), y, weight)
    count = features.shape[1]  # without padding where the batch has none
    near, far = (cosine(features, extras[name][:, :count]) for name in ("received", "last"))
    contrast = -F.logsigmoid((near - far) / tau)  # log(1 + exp((far - near) / tau))
    return add_silently(data, extras["mu"] * (contrast * weight).sum(-1))


def cosine(a: Float[Tensor, "*A F"], b: Float[Tensor, "*A F"]) -> Float[Tensor, "*A"]:
    """The cosine similarity of two vectors; for a vector of zeros it is zero, with gradient zero."""
    lengths = torch.linalg.vector_norm(a, dim=-1) * torch.linalg.vector_norm(b, dim=-1)
    return (a * b).sum(-1) / lengths.masked_fill(lengths == 0, torch.inf)
