"""AFL: one model for the worst mixture of the clients, whose weights are learned with it.

Mohri, Sivek, Suresh. Agnostic Federated Learning. ICML 2019. https://arxiv.org/abs/1902.00146, Stochastic-AFL.

    F_i <- f_i(w)                                               all training data of the client, w as received
    w_i <- w, then E steps of SGD on f_i
    w   <- (sum_i l_i w_i) / (sum_i l_i)                        over the cohort; if all l_i are 0: the mean
    l_i <- l_i + lambda_lr N / S F_i                            for the cohort, from l_i = 1/N
    l   <- argmin_p ||p - l||                                   on the simplex: p_i >= 0, sum_i p_i = 1

Idea: The model should be good for any mixture of the clients' data, so for the worst one: min over w of max over l of
sum_i l_i f_i(w). Clients with high losses gain weight, the others lose it in the projection. The solution is the mean
of w over the rounds.

When: one model has to serve even the worst mixture of the clients.

Sent: w down; w_i and F_i up. Kept: nothing.

Cost: one local training as FedAvg, and a forward pass over the training data. The server keeps two models and l.

Newcomers: use the same model as all others.

Deviations: the paper takes one gradient step per round; E local steps are FedAvg's. N / S keeps the ascent unbiased
where only S of N clients take part.

Pitfalls: the last w can oscillate between clients; only the mean converges, but in its first rounds it holds the poor
models of the start. The projection in the fair_flearn code leaves out the current element of a sum, so its weights
often do not sum to 1.

Diagnostics: weights, l; max_loss, the largest F_i of the cohort.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.core.params import SharedParams, broadcast, lerp
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Shared, Task
from engine.training.evaluate import cohort_losses
from engine.training.local import local_sgd
from engine.training.roles import OneGlobalModel
from engine.training.simplex import project


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("average",)

    lambda_lr: float = Field(
        0.1,
        ge=0,
        le=1e6,
        title="η_λ",
        description="Learning rate of the clients' weights; larger = turns to the worst clients sooner.",
        json_schema_extra={"tune": [0.001, 1.0, "log"]},
    )
    average: bool = Field(
        True,
        description="Use the mean of the global model over all rounds so far, as in the paper; otherwise the last one.",
    )


@dataclass(frozen=True)
class State:
    last_params: SharedParams  # w
    global_params: SharedParams  # the model in use: w, or its mean over the rounds
    client_weights: Float[Tensor, "N"]  # l
    rounds: int


@ALGORITHMS.register(
    "afl",
    title="AFL",
    paper="Mohri, Sivek, Suresh, ICML 2019",
    family="Baselines",
    style=Style(hue="pale grey", dash="dash", symbol="triangle-down"),
)
@dataclass(frozen=True)
class Afl(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.lambda_lr == 0:
            task.note("afl with lambda_lr=0: fedavg with equal weights")
        start, count = task.initial_model(), task.num_clients
        uniform = torch.full((count,), 1 / count, dtype=torch.float64, device=task.device)
        return State(start, start, uniform, 0)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        losses = cohort_losses(task, state.last_params, cohort)
        received = broadcast(state.last_params, cohort.size)
        local = local_sgd(task, received, cohort)
        own = state.client_weights[cohort.clients]
        total = own.sum()
        shares = torch.where(total > 0, own / total.where(total > 0, 1.0), 1 / cohort.size)
        values: dict[str, float | Tensor] = {"weights": state.client_weights, "max_loss": losses.max()}
        arrived = task.channel.deliver(local.params, received, cohort, shares, num_extra=1)
        if not arrived.size:
            return state, Diagnostics(local.loss, local.gradient_evaluations, values)
        last = task.channel.combine(arrived, state.last_params, cohort)
        gain = self.hparams.lambda_lr * task.num_clients / arrived.size * losses[arrived.rows]
        weights = project(state.client_weights.index_add(0, cohort.clients[arrived.rows], gain))
        rounds = state.rounds + 1
        used = lerp(state.global_params, last, 1 / rounds) if self.hparams.average else last
        values["weights"] = weights
        return State(last, used, weights, rounds), Diagnostics(local.loss, local.gradient_evaluations, values)

    def shared(self, state: State) -> Shared:
        w = state.last_params
        return Shared(down=(w,), up=(w, {"F": next(iter(w.values())).new_zeros(())}))
