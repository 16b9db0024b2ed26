"""KT-pFL: clients learn from each other's predictions, in proportions that the server learns for each of them.

Zhang, Guo, Ma, Wang, Xu, Wu. Parameterized Knowledge Transfer for Personalized Federated Learning. NeurIPS 2021.
https://arxiv.org/abs/2111.02949, Algorithm 1.

    s_i <- softmax(z_i / temperature)           z_i logits of theta_i on the round's public samples
    c_i <- project(c_i - coefficient_lr [lam grad KL(sum_j c_ij s_j || s_i) + 2 rho (c_i - 1/S)])
    t_i <- sum_j c_ij s_j                       over the cohort, with the new c_i
    distill_steps times, for a batch B of the public samples:
        theta_i <- theta_i - lr lam grad mean_b KL(t_i(x_b) || softmax(z_i(x_b) / temperature))
    E times, for a batch B of the own data:
        theta_i <- theta_i - lr grad f_i(theta_i; B)

Idea: As in FedMD, clients send predictions on public samples instead of models. But an average suits no client whose
data differ. So the server keeps a matrix c: row i says how much client i learns from each client. A row moves toward
clients that predict alike, and rho holds it near the average. ``project`` takes the nearest row of probabilities.

When: FedMD fits, and clients should learn most from those that are similar. Needs: public samples
(partition.public_fraction).

Sent: scores of n public samples, both ways. Kept: theta_i; the server keeps c.

Cost: distill_steps more gradients a round than local training, and a forward pass over the n public samples, which
makes a round with few local steps slow; bytes of n C numbers. The server computes S^2 n C products.

Newcomers: learn from the uniform mean of the last scores, from the common start, then a local training.

Deviations: the order and the single upload of the published code: coefficients, targets, distillation, training. The
paper updates c with the models after distillation, weights clients by samples and does not constrain c. The code takes
a squared error for c, stores softmax(5 c), divides the divergence by the number of classes too, and trains each client
before the first round. coefficient_lr is ours. Under partial participation the row of a participant is restricted to
the cohort and rescaled to a sum of 1 there; its sum over the cohort stays as it was. A client whose scores are lost on
the way learns from nobody in that round.

Pitfalls: at a high temperature all scores are nearly uniform: the divergence and its gradients are small, since they
are not multiplied by the squared temperature, and lam has to make up for it. In the first round all models agree, and
c does not move.

Diagnostics: coefficients, the matrix c, of at most 200 clients; public_bytes in round 1, the size of the public
samples, which does not count as sent.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from engine.backends import Extras, OnFeatures, of_classes
from engine.core.params import ClientParams, broadcast, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.models import Model
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.local import Trained, local_sgd
from engine.training.public import AlignmentSet, logits_on, public_bytes, require_public, taught
from engine.training.roles import PersonalModels
from engine.training.simplex import project

MAX_RECORDED = 200  # clients whose coefficients are recorded each round


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("coefficient_lr", "temperature")

    lam: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Weight of the other clients' predictions; larger = more transfer, 0 = learning alone.",
        json_schema_extra={"tune": [0.1, 100.0, "log"]},
    )
    rho: float = Field(
        0.7,
        ge=0,
        le=1e6,
        title="ρ",
        description="Pull of the coefficients toward equal ones; larger = more uniform.",
        json_schema_extra={"tune": [0.01, 10.0, "log"]},
    )
    coefficient_lr: float = Field(
        0.1,
        ge=0,
        le=1e6,
        description="Learning rate of the coefficients; larger = they adapt faster, 0 keeps them uniform.",
        json_schema_extra={"tune": [0.01, 1.0, "log"]},
    )
    temperature: float = Field(
        10.0,
        gt=0,
        le=1e6,
        title="τ",
        description="Softens the predictions that are compared; larger = softer.",
        json_schema_extra={"tune": [1.0, 20.0, "log"]},
    )
    public_samples: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        title="n",
        description="Public samples of a round; more = a better measure of the models, and more bytes.",
    )
    distill_steps: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="Steps toward the others' predictions; more = more transfer, 0 = learning alone.",
        json_schema_extra={"tune": [1, 50, "intlog"]},
    )


@dataclass(frozen=True)
class State:
    personal_params: ClientParams  # theta_i
    coefficients: Float[Tensor, "N N"]  # c
    mean_scores: Float[Tensor, "n C"]  # the mean of s_i over the last cohort
    round: int  # these are of the public samples of this round; 0 before the first


@ALGORITHMS.register(
    "kt_pfl",
    title="KT-pFL",
    paper="Zhang et al., NeurIPS 2021",
    family="Knowledge transfer",
    style=Style(hue="olive", dash="dashdot", symbol="triangle-left"),
    averages=False,
)
@dataclass(frozen=True)
class KtPfl(PersonalModels):
    no_feedback: ClassVar[str] = "each round sends predictions for other samples"

    hparams: Hparams

    def init(self, task: Task) -> State:
        h, N = self.hparams, task.num_clients
        size = min(h.public_samples, require_public(task, "kt_pfl").num_samples)
        if h.lam == 0 or h.distill_steps == 0:
            name = "lam" if h.lam == 0 else "distill_steps"
            task.note(f"kt_pfl with {name}=0: nothing is learned from other clients, this is local_train")
        uniform = torch.full((N,), 1 / N, dtype=task.dtype, device=task.device)
        scores = torch.zeros(size, task.data.num_classes, dtype=task.dtype, device=task.device)
        return State(task.initial_clients(), task.for_clients({"coefficients": uniform})["coefficients"], scores, 0)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        alignment = AlignmentSet.of(task, cohort.round, len(state.mean_scores))
        models = gather(state.personal_params, cohort.clients)
        uploads = {"scores": (logits_on(task, models, alignment) / self.hparams.temperature).softmax(-1)}
        arrived = task.channel.deliver(uploads, None, cohort, cohort.uniform)
        coefficients, mean_scores, of_round, cost = state.coefficients, state.mean_scores, state.round, 0
        if arrived.size:
            clients, scores = cohort.clients[arrived.rows], arrived.params["scores"]
            coefficients, shares = self._updated(coefficients, clients, scores)
            targets = torch.einsum("ij,jnc->inc", shares, scores)
            distilled = self._distilled(targets, alignment, gather(models, arrived.rows), cohort, task)
            models, cost = scatter(models, distilled.params, arrived.rows), distilled.gradient_evaluations
            mean_scores, of_round = task.channel.combine(arrived, None, cohort)["scores"], cohort.round
        trained = local_sgd(task, models, cohort)
        own = scatter(state.personal_params, trained.params, cohort.clients)
        values = public_bytes(task, cohort.round)
        if task.num_clients <= MAX_RECORDED:
            values["coefficients"] = coefficients.index_select(0, torch.arange(task.num_clients, device=task.device))
        new = State(own, coefficients, mean_scores, of_round)
        return new, Diagnostics(trained.loss, cost + trained.gradient_evaluations, values)

    def _updated(
        self, coefficients: Float[Tensor, "N N"], clients: Int[Tensor, "A"], scores: Float[Tensor, "A n C"]
    ) -> tuple[Float[Tensor, "N N"], Float[Tensor, "A A"]]:
        """c after a step of these clients' rows, and these rows restricted to the same clients, scaled to sum to 1."""
        h, uniform = self.hparams, 1 / len(clients)
        rows = coefficients.index_select(0, clients)
        over = rows.index_select(1, clients)
        mass = over.sum(1, keepdim=True)
        shares = (over / mass.where(mass > 0, 1)).where(mass > 0, uniform)
        gradient = h.lam * divergence_gradient(shares, scores) + 2 * h.rho * (shares - uniform)
        shares = project(shares - h.coefficient_lr * gradient)
        return coefficients.index_copy(0, clients, rows.index_copy(1, clients, shares * mass)), shares

    def _distilled(
        self, targets: Float[Tensor, "A n C"], alignment: AlignmentSet, start: ClientParams, cohort: Cohort, task: Task
    ) -> Trained:
        """The models ``start`` [A, ...] after their steps toward the targets."""
        h = self.hparams
        steps = h.distill_steps if h.lam else 0
        return taught(task, start, cohort, alignment, steps, OnFeatures(partial(_divergence, h)), targets)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        scores = {"scores": state.mean_scores}
        return Shared(down=(scores,), up=(scores,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        start = broadcast(task.initial_model(), newcomers.size)
        if state.round:
            alignment = AlignmentSet.of(task, state.round, len(state.mean_scores))
            targets = state.mean_scores.expand(newcomers.size, *state.mean_scores.shape)
            start = self._distilled(targets, alignment, start, newcomers, task).params
        return Predictor.of_everyone(local_sgd(task, start, newcomers).params, newcomers)


def divergence_gradient(shares: Float[Tensor, "A A"], scores: Float[Tensor, "A n C"]) -> Float[Tensor, "A A"]:
    """The gradient by c_ij of KL(t_i || s_i), averaged over the samples, up to a constant in each row."""
    least = torch.finfo(scores.dtype).tiny
    targets = torch.einsum("ij,jnc->inc", shares, scores)
    ratio = targets.clamp(min=least).log() - scores.clamp(min=least).log()
    return torch.einsum("inc,jnc->ij", ratio, scores) / scores.shape[1]


def _divergence(
    h: Hparams, model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> Tensor:
    """lam KL(t_i || softmax(z / temperature)) up to a constant; ``y`` are the samples' places among the targets."""
    scores = (model.stacked_head_logits(params, features) / h.temperature).log_softmax(-1)
    return -h.lam * ((of_classes(extras["targets"], y) * scores).sum(-1) * weight).sum(-1)
