"""FedPAC: features are aligned across clients by class, and each client combines the heads that suit its data.

Xu, Tong, Huang. Personalized Federated Learning with Feature Alignment and Classifier Collaboration. ICLR 2023.
https://arxiv.org/abs/2306.11867, Algorithm 1.

    H_i   <- (q_ic mu_ic)_c                     frequency and mean feature of each class, under phi as received
    V_i   <- trace of the covariance of the estimate H_i from m_i samples
    head_steps times, for a batch B:
        h_i   <- h_i - lr grad_h f_i(phi, h_i; B)
    phi_i <- phi
    E times, for a batch B:
        phi_i <- phi_i - lr grad_phi [f_i(phi_i, h_i; B) + lam mean_b ||phi_i(x_b) - p_c||^2 / F]       c = y_b
    p_c   <- sum_i m_ic / m_c p_ic              p_ic means under phi_i, over the participants with class c
    phi   <- sum_i (m_i / m) phi_i                              over the cohort
    a_i   <- argmin_a sum_j a_j^2 V_j + ||H_i - sum_j a_j H_j||^2       over the cohort; a_j >= 0, sum_j a_j = 1
    h_i   <- sum_j a_ij h_j

Idea: Heads can help each other only if a feature means the same for all clients. So each client pulls the features of a
class toward their mean over all clients, a prototype, as FedProto does. Then it takes the combination of heads with the
least estimated error on its own data: heads of other clients add bias where their classes differ, and reduce the
variance, which is largest for clients with few samples.

When: labels differ and samples are few, so that clients gain from combining their heads. Needs: a body under the head
(dnn, cnn).

Sent: phi both ways; h_i, p_ic, H_i and V_i up; the combined head and p_c down. Kept: h_i.

Cost: head_steps + E steps per round, as FedRep, and two forward passes over the training data; bytes as FedAvg and a
few features. The server solves a quadratic program of S unknowns for each participant.

Newcomers: head_steps from the common initial head on the server's body, which does not change.

Deviations: the paper trains heads with learning rate 0.1 and bodies with 0.01; here both have that of the training
unless head_lr is set. The published code drops shares below 0.001. A class without a prototype has the mean feature of
the client in its place, and there is no pull before the first prototypes. A single participant keeps its head.

Pitfalls: in the published code, PFLlib and FL-bench, rounding may make the quadratic form indefinite, and they drop all
eigenvalues below 0.01, which is the size of V itself. PFLlib averages prototypes without counts.

Diagnostics: own_share, a_ii of each participant.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from engine.core.devices import sent
from engine.core.params import ClientParams, SharedParams, broadcast, by_client, gather, row, scatter
from engine.core.registry import ALGORITHMS, Options, Positive
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.body_head import part, require_body, train_heads
from engine.training.features import Features, shared_features, stacked_features
from engine.training.local import Trained, local_sgd
from engine.training.prototypes import averaged, towards_prototypes
from engine.training.roles import SplitModels
from engine.training.simplex import least_quadratic

ROUNDING = 1e-12  # added to the diagonal of the quadratic form, relative to its mean


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("head_lr", "collaborate")

    lam: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Pull of the features toward the prototypes; larger = closer, 0 = none.",
        json_schema_extra={"tune": [0.01, 10.0, "log"]},
    )
    head_steps: int = Field(
        10,
        ge=1,
        le=1_000_000,
        title="τ",
        description="Steps of the head before the body's in each round; more = more personal.",
        json_schema_extra={"tune": [1, 50, "intlog"]},
    )
    head_lr: Positive | Literal["training"] = Field(
        "training", description="Learning rate of the head.", json_schema_extra={"training": "lr"}
    )
    collaborate: bool = Field(True, description="Combine the heads of the participants; otherwise each keeps its own.")


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # phi
    personal_params: ClientParams  # h_i
    prototypes: Float[Tensor, "C F"]  # p_c, zero where not known
    is_known: Bool[Tensor, "C"]


@ALGORITHMS.register(
    "fedpac",
    title="FedPAC",
    paper="Xu, Tong, Huang, ICLR 2023",
    family="Split models",
    style=Style(hue="purple", dash="longdash", symbol="diamond"),
    two_uploads=True,
)
@dataclass(frozen=True)
class FedPac(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "fedpac")
        C = task.data.num_classes
        return State(
            part(task.initial_model(), task.model.body),
            part(task.initial_clients(), task.model.head),
            torch.zeros(C, task.feature_width, dtype=task.dtype, device=task.device),
            torch.zeros(C, dtype=torch.bool, device=task.device),
        )

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        h, values = self.hparams, dict[str, float | Tensor]()
        received, data = task.initial_model() | state.shared_params, task.data.train
        features = shared_features(task, received, data, cohort.clients) if h.lam or h.collaborate else None
        own = gather(state.personal_params, cohort.clients)
        heads = train_heads(task, state.shared_params, own, cohort, h.head_steps, float(h.head_lr))
        bodies = self._bodies(state, heads.params, features if h.lam else None, cohort, task)
        prototypes, is_known = state.prototypes, state.is_known
        if h.lam:
            trained = stacked_features(task, bodies.params, data, cohort.clients)
            prototypes, is_known = averaged(task, trained.by_class, prototypes, is_known, cohort)
        new_heads = part(heads.params, task.model.head)
        if h.collaborate and features is not None:
            new_heads, values["own_share"] = _combined(new_heads, own, features, cohort, task)
        uploads = part(bodies.params, task.model.body)
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.weights),
            scatter(state.personal_params, new_heads, cohort.clients),
            prototypes,
            is_known,
        )
        steps = sent(cohort.plan.steps, task.device, task.dtype)
        loss = heads.loss.lerp(bodies.loss, steps / (steps + h.head_steps))
        return new, Diagnostics(loss, heads.gradient_evaluations + bodies.gradient_evaluations, values)

    def _bodies(
        self, state: State, start: ClientParams, features: Features | None, cohort: Cohort, task: Task
    ) -> Trained:
        """The bodies after local training from ``start`` [S, ...], pulled toward the prototypes if there are any."""
        if features is None or not bool(state.is_known.any()):
            return local_sgd(task, start, cohort, trained=task.model.body)
        goals = torch.where(state.is_known[:, None], state.prototypes, features.class_means)
        extras = {"prototypes": goals, "is_known": torch.ones_like(features.class_counts, dtype=torch.bool)}
        objective = towards_prototypes(self.hparams.lam)
        return local_sgd(task, start, cohort, trained=task.model.body, objective=objective, extras=extras)

    def shared(self, state: State) -> Shared:
        body, head, features = state.shared_params, row(state.personal_params, 0), {"features": state.prototypes}
        of_features = (features,) if self.hparams.lam else ()
        down, up = (body, *of_features), (body, *of_features)
        if self.hparams.collaborate:
            down, up = (*down, head), (*up, head, features, {"variance": state.prototypes.new_zeros(())})
        return Shared(down, up)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        h, start = self.hparams, broadcast(part(task.initial_model(), task.model.head), newcomers.size)
        heads = train_heads(task, state.shared_params, start, newcomers, h.head_steps, float(h.head_lr))
        return Predictor.of_everyone(heads.params, newcomers)


def _combined(
    heads: ClientParams, own: ClientParams, features: Features, cohort: Cohort, task: Task
) -> tuple[ClientParams, Float[Tensor, "N"]]:
    """The combined heads of the cohort, and a_ii, NaN for the other clients; ``own`` are the heads before the round."""
    statistics = features.class_means[0].numel() + 1  # H_i and V_i
    arrived = task.channel.deliver(heads, own, cohort, cohort.uniform, num_extra=statistics)
    shares = head_shares(features, arrived.rows).to(task.device, task.dtype)
    combined = {n: torch.tensordot(shares, p, dims=1) for n, p in arrived.params.items()}
    own_shares = by_client(shares.diagonal(), cohort.clients[arrived.rows], task.num_clients)
    return scatter(heads, combined, arrived.rows), own_shares


def head_shares(features: Features, rows: Int[Tensor, "A"]) -> Float[Tensor, "A A"]:
    """a_ij of some participants, the weights of their heads in each combination; in double precision on the host."""
    estimate, variance = (t[rows].cpu() for t in class_statistics(features))
    centered = estimate - estimate.mean(0)  # changes no difference, and keeps the products accurate
    products = centered @ centered.T
    shares = torch.eye(len(variance), dtype=torch.float64)
    for i in range(len(shares)):
        form = products[i, i] - products[i] - products[i][:, None] + products + variance.diag()
        form += (ROUNDING * form.diagonal().mean()).expand(len(form)).diag()
        if form.isfinite().all() and form.any():
            shares[i] = torch.from_numpy(least_quadratic(form.numpy()))
    return shares


def class_statistics(features: Features) -> tuple[Float[Tensor, "S CF"], Float[Tensor, "S"]]:
    """H_i and V_i in double precision."""
    m = features.sizes.double()
    estimate = (features.class_sums.double() / m[:, None, None]).flatten(1)
    squares = features.total(features.values.double().square().sum(1)) / m
    return estimate, (squares - estimate.square().sum(1)).clamp(min=0) / m
