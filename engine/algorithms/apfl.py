"""APFL: each client uses its own mixture of a personalized model and the global one.

Deng, Kamani, Mahdavi. Adaptive Personalized Federated Learning. 2020. https://arxiv.org/abs/2003.13461, Algorithm 1.

    w_i <- w                                                    at the start of the round
    E times, for a batch B, all three from their values before the step:
        v_i~ <- a_i v_i + (1 - a_i) w_i                         parameters, not logits
        w_i  <- w_i - lr grad f_i(w_i; B)
        v_i  <- v_i - lr a_i grad f_i(v_i~; B)
        a_i  <- a_i - alpha_lr <grad f_i(v_i~; B), v_i - w_i>   if adaptive; kept in [0, 1]
    w    <- sum_i (m_i / m) w_i                                 over the cohort

Idea: FedAvg runs unchanged. In addition each client trains v_i so that its mixture with the local copy of the global
model fits its data; a_i is the share of its own model. With ``adaptive`` the share a_i is learned by gradient descent
too, so that clients that gain nothing from the others rely on themselves.

When: clients should learn how much to rely on their own data and how much on the others.

Sent: w, both ways. Kept: v_i, a_i, and w_i after local training, for the mixture that is used.

Cost: two gradients on each batch, twice FedAvg's; bytes as FedAvg.

Newcomers: v_i from the common start and a_i from ``alpha``, one local training together with a copy of w.

Deviations: the paper gives no step size for a_i; alpha_lr is the learning rate unless it is set. The global model is
FedAvg's, weighted by samples, independent of a_i.

Pitfalls: public code leaves v_i untrained (fluke), mixes logits instead of parameters, overwrites v_i with the mixture,
or multiplies by a_i twice. The mixture holds w_i of the client's last participation, not the w averaged later.

Diagnostics: alpha, the share a_i of every client.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    clone,
    dot,
    gather,
    lerp_each,
    scatter,
)
from engine.core.registry import ALGORITHMS, Options, Positive
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import SGD, Live, Outcome, for_each_client
from engine.training.roles import PersonalModels


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("alpha_lr",)

    alpha: float = Field(
        0.5,
        ge=0,
        le=1,
        title="α",
        description="Share of the personalized model in the mixture at the start; larger = more personal.",
        json_schema_extra={"tune": (0.01, 0.99, "lin")},
    )
    adaptive: bool = Field(True, description="Learn the share of each client; otherwise it stays at alpha.")
    alpha_lr: Positive | Literal["training"] = Field(
        "training",
        description="Learning rate of the share; larger = adapts faster.",
        json_schema_extra={"training": "lr"},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # v_i
    local_params: ClientParams  # w_i after local training
    alpha: Float[Tensor, "N"]  # a_i


@ALGORITHMS.register(
    "apfl",
    title="APFL",
    paper="Deng, Kamani, Mahdavi, 2020",
    family="Regularized toward a shared model",
    style=Style(hue="teal", dash="solid", symbol="triangle-right"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class Apfl(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if not h.adaptive and h.alpha in (0, 1):
            what = "the clients' own models never train" if h.alpha == 0 else "each client uses local training alone"
            task.note(f"apfl with alpha={h.alpha:g} and adaptive=false: {what}")
        everyone = task.initial_clients()
        alpha = torch.full((task.num_clients,), h.alpha, dtype=task.dtype, device=task.device)
        return State(task.initial_model(), everyone, clone(everyone), alpha)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        clients = cohort.clients
        received = broadcast(state.global_params, cohort.size)
        end = self._train(received, gather(state.personal_params, clients), state.alpha[clients], cohort, task)
        new = State(
            task.channel.aggregate(end.w, state.global_params, cohort, cohort.weights),
            scatter(state.personal_params, end.v, clients),
            scatter(state.local_params, end.w, clients),
            state.alpha.index_copy(0, clients, end.alpha),
        )
        return new, Diagnostics(end.loss, 2 * cohort.plan.gradient_evaluations, {"alpha": new.alpha})

    def _train(self, w: ClientParams, v: ClientParams, alpha: Tensor, cohort: Cohort, task: Task) -> Outcome:
        """``w``, ``v`` and ``alpha`` of each participant after its steps, and the loss of the mixture."""
        sgd = SGD.of(task)

        def step(c: Live, batch: Batch) -> Tensor:
            loss, g = c.task.without_upload_privacy.grad(lerp_each(c.w, c.v, c.alpha), batch)
            along = dot(g, c.v) - dot(g, c.w) if self.hparams.adaptive else 0.0
            sgd.step(c, "w", batch)
            sgd.step_along(c, "v", g, shares=c.alpha)
            if self.hparams.adaptive:
                c.alpha.sub_(along, alpha=float(self.hparams.alpha_lr)).clamp_(0, 1)
            return loss

        same = "apfl", sgd.options, self.hparams
        return for_each_client(task, cohort.plan, {"w": w, "v": v, "alpha": alpha}, step, same=same)

    def personalized(self, state: State, task: Task) -> Predictor:
        return Predictor(lerp_each(state.local_params, state.personal_params, state.alpha), is_per_client=True)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        w, v = (broadcast(p, newcomers.size) for p in (state.global_params, task.initial_model()))
        alpha = torch.full((newcomers.size,), self.hparams.alpha, dtype=task.dtype, device=task.device)
        end = self._train(w, v, alpha, newcomers, task)
        mixed = lerp_each(end.w, end.v, end.alpha)
        return Predictor.of_everyone(mixed, newcomers)
