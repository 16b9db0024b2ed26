"""GPFL: features are adapted to all clients' classes and to the client's own, by one shared conditional layer.

Zhang, Hua, Wang, Song, Xue, Ma, Cao, Guan. GPFL: Simultaneously Learning Global and Personalized Feature Information
for Personalized Federated Learning. ICCV 2023. https://arxiv.org/abs/2308.10279, equations 1 to 5.

    g   <- mean_u C_u                                           class embeddings C as received
    p_i <- sum_u n_iu / m_i C_u                                 n_iu training samples of class u
    E times, for a batch B:
        f_G <- relu((gamma(g) + 1) phi_i(x) + beta(g))          gamma, beta: LayerNorm(relu(linear))
        f_P <- relu((gamma(p_i) + 1) phi_i(x) + beta(p_i))
        L_P <- CE(h_i(f_P), y)
        L_alg <- CE(cos(f_G, C_i), y)                           C_i moves
        L_mlg <- ||f_G - C_y||                                  C as received
        L <- L_P + L_alg + lam L_mlg + mu/2 ||(V_i, C_i)||^2
        (phi_i, V_i, C_i, h_i) <- (phi_i, V_i, C_i, h_i) - lr grad L
    (phi, V, C) <- sum_i (m_i / m) (phi_i, V_i, C_i)            over the cohort

Idea: Local training learns what is particular to a client and forgets the rest. Here one embedding per class (GCE, C),
learned by all, pulls the features in angle and in length. A conditional valve (CoV, V: the layers of gamma and beta)
gives the client's head a version of the same features that is tuned to the client's own classes.

When: labels differ, and clients need features common to all as well as their own. Needs: a body under the head (dnn,
cnn).

Sent: phi, V and C, both ways. Kept: h_i.

Cost: one local training a round; more bytes than FedAvg without the head: two square layers as wide as the features,
and the embeddings.

Newcomers: a head trained for one participation from the common initial one, with copies of all that is shared; it is
kept and used on the server's body, valve and embeddings, conditioned on the newcomer's class frequencies.

Deviations: both conditions come from the embeddings received in this round and stay fixed during it; for evaluation
they are made from the averaged ones. The poster gives no lam and mu: ours are the published scripts'. The training loss
is L_P. A vector of zeros has cosine 0 with everything, and the norm's gradient at zero is zero.

Pitfalls: the published code builds the conditions from the client's old local embeddings, and its magnitude loss is one
norm over the batch (``mlg="frobenius"``), which grows with the root of the batch size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from engine.backends import Extras, FeatureGradients, OnFeatures, add_silently, mean_cross_entropy, of_classes
from engine.core.params import ClientParams, SharedParams, broadcast, gather, in_client_order, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.streams import torch_stream
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.models import Model, Params
from engine.task import Diagnostics, Forward, Predictor, Task
from engine.training.body_head import part, require_body
from engine.training.gpfl_gradient import guided_gradients
from engine.training.local import Trained, local_sgd
from engine.training.roles import SplitModels

EMBEDDINGS = "gce.weight"
CONDITION = "condition"  # p_i, stored with a client's parameters for prediction


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("mlg",)

    lam: float = Field(
        0.01,
        ge=0,
        le=1e6,
        title="λ",
        description="Weight of the magnitude-level guidance; larger = features nearer to the global embeddings.",
        json_schema_extra={"tune": (0.0001, 1, "log")},
    )
    mu: float = Field(
        0.1,
        ge=0,
        le=1e6,
        title="μ",
        description="Weight decay of the embeddings and the conditional valve; larger = smaller weights.",
        json_schema_extra={"tune": (0.0001, 1, "log")},
    )
    mlg: Literal["mean", "frobenius"] = Field(
        "mean",
        description="Magnitude-level guidance: the mean of the samples' norms, or one norm over the batch as in the "
        "published code.",
    )


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # phi, V and C
    personal_params: ClientParams  # h_i


@ALGORITHMS.register(
    "gpfl",
    title="GPFL",
    paper="Zhang et al., ICCV 2023",
    family="Split models",
    style=Style(hue="vermilion", dash="solid", symbol="diamond"),
    privacy=("client",),
)
@dataclass(frozen=True)
class Gpfl(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "gpfl")
        body = part(task.initial_model(), task.model.body)
        return State(body | _initial_guidance(task), part(task.initial_clients(), task.model.head))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        heads = gather(state.personal_params, cohort.clients)
        trained = self._train(state.shared_params, heads, cohort, task)
        uploads = part(trained.params, state.shared_params)
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.weights),
            scatter(state.personal_params, part(trained.params, task.model.head), cohort.clients),
        )
        return new, Diagnostics(trained.loss, trained.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        return self._predictor(state.shared_params, state.personal_params, task)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        heads = broadcast(part(task.initial_model(), task.model.head), newcomers.size)
        trained = self._train(state.shared_params, heads, newcomers, task)
        own = in_client_order(part(trained.params, task.model.head), newcomers.clients)
        return self._predictor(state.shared_params, own, task)

    def forward(self, model: Model) -> Forward:
        """h_i(f_P), under the condition stored with the parameters."""

        def forward(params: SharedParams, x: Tensor) -> Tensor:
            (bent,) = valves(params, model.features(params, x), params[CONDITION][None])
            return model.head_logits(params, bent)

        return forward

    def _predictor(self, shared: SharedParams, heads: ClientParams, task: Task) -> Predictor:
        """The predictor, with conditions from the current embeddings."""
        used = {n: p for n, p in shared.items() if n != EMBEDDINGS}
        conditions = {CONDITION: _personal_conditions(shared[EMBEDDINGS], task)}
        params = broadcast(used, task.num_clients) | heads | conditions
        return Predictor(params, is_per_client=True, forward=self.forward(task.model))

    def _train(self, received: SharedParams, heads: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """Train everything together, with conditions from the embeddings as received."""
        embeddings = received[EMBEDDINGS]
        personal = _personal_conditions(embeddings, task)[cohort.clients]
        conditions = torch.stack([embeddings.mean(0).expand_as(personal), personal], dim=-2)  # g and p_i
        extras = broadcast({"received": embeddings}, cohort.size) | {"conditions": conditions}
        guidance = [n for n in received if n not in task.model.names]
        decay = dict.fromkeys(guidance, self.hparams.mu)
        objective = OnFeatures(partial(_loss, self.hparams), decay, partial(_gradients, self.hparams))
        return local_sgd(task, broadcast(received, cohort.size) | heads, cohort, objective=objective, extras=extras)


def _loss(
    h: Hparams, model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> Tensor:
    """L of the equations above without its last term; L_P alone is recorded."""
    generic, personal = valves(params, features, extras["conditions"])
    logits = model.stacked_head_logits(params, personal)
    angle = mean_cross_entropy(cosines(generic, params[EMBEDDINGS]), y, weight)
    gap = generic - of_classes(extras["received"], y)
    guidance = angle + h.lam * _magnitude(gap, weight, h.mlg)
    return add_silently(mean_cross_entropy(logits, y, weight), guidance)


def _gradients(
    h: Hparams, model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> FeatureGradients:
    """The gradient of ``_loss``, derived by hand."""
    conditions, received = extras["conditions"], extras["received"]
    return guided_gradients(params, features, y, weight, conditions, received, h.lam, h.mlg == "frobenius")


def valves(params: Params, features: Float[Tensor, "*A B F"], conditions: Float[Tensor, "*A K F"]) -> Sequence[Tensor]:
    """CoV and equation 1: features scaled and shifted by each condition, for one client or A stacked ones."""
    gamma, beta = (_affine(params, which, conditions).unsqueeze(-2).unbind(-3) for which in ("gamma", "beta"))
    return [F.relu(torch.addcmul(shift, scale + 1, features)) for scale, shift in zip(gamma, beta, strict=True)]


def cosines(rows: Float[Tensor, "*A B F"], others: Float[Tensor, "*A C F"]) -> Float[Tensor, "*A B C"]:
    """The cosine similarity of all pairs; a row of zeros has cosine zero and gradient zero."""
    lengths = (torch.linalg.vector_norm(v, dim=-1, keepdim=True) for v in (rows, others))
    of_rows, of_others = (length.masked_fill(length == 0, torch.inf) for length in lengths)
    return rows @ others.mT / of_rows / of_others.mT


def _affine(params: Params, which: str, conditions: Tensor) -> Tensor:
    """LayerNorm(relu(linear(condition))): gamma or beta."""
    layer, norm = f"cov.{which}", f"cov.{which}_norm"
    outputs = (params[f"{layer}.weight"] @ conditions.mT).mT  # so that the weight's gradient has its memory layout
    linear = outputs + params[f"{layer}.bias"].unsqueeze(-2)
    normal = F.layer_norm(F.relu(linear), linear.shape[-1:])
    return normal * params[f"{norm}.weight"].unsqueeze(-2) + params[f"{norm}.bias"].unsqueeze(-2)


def _magnitude(gap: Tensor, weight: Tensor, mlg: str) -> Tensor:
    """Equation 4. Padding has weight 0, so it is ignored in both norms."""
    if mlg == "frobenius":
        return torch.linalg.vector_norm(gap * (weight > 0)[..., None], dim=(-2, -1))
    return (torch.linalg.vector_norm(gap, dim=-1) * weight).sum(-1)


def _initial_guidance(task: Task) -> SharedParams:
    """CoV and GCE as torch's own layers start, drawn on the CPU in single precision like the model."""
    width = task.feature_width
    stream = torch_stream(task.seed, "gpfl guidance")
    drawn = {EMBEDDINGS: torch.randn(task.data.num_classes, width, generator=stream, dtype=torch.float32)}
    for which in ("gamma", "beta"):
        for name, shape in (("weight", (width, width)), ("bias", (width,))):
            uniform = torch.rand(shape, generator=stream, dtype=torch.float32)
            drawn[f"cov.{which}.{name}"] = (2 * uniform - 1) / width**0.5
        drawn |= {f"cov.{which}_norm.weight": torch.ones(width), f"cov.{which}_norm.bias": torch.zeros(width)}
    return {n: p.to(task.device, task.dtype) for n, p in drawn.items()}


def _personal_conditions(embeddings: Tensor, task: Task) -> Tensor:
    """p_i of all clients [N, F]: the embeddings by the class frequencies of each client's training data."""
    counts = task.data.class_counts.to(embeddings.dtype)
    return counts / counts.sum(1, keepdim=True) @ embeddings
