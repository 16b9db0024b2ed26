"""Per-FedAvg: a global model that is good after one step of adaptation on a client's data.

Fallah, Mokhtari, Ozdaglar. Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning
Approach. NeurIPS 2020. https://arxiv.org/abs/2002.07948, Algorithm 1.

    w_i <- w
    E times, for batches B_1, B_2, B_3:
        w_i~ <- w_i - alpha grad f_i(w_i; B_1)
        g_i  <- grad f_i(w_i~; B_2)
        w_i  <- w_i - beta g_i                                  variant fo
        w_i  <- w_i - beta [g_i - alpha H_i(w_i; B_3) g_i]      variant hf; H_i is the Hessian of f_i
    w   <- sum_i (m_i / m) w_i                                  over the cohort

Idea: FedAvg minimizes the loss of w; this minimizes the loss of w after each client has taken a step on its own data.
The gradient of that goes through the step, so it contains the Hessian. The first-order variant omits it.

When: new clients must adapt to few samples in a single step.

Sent: w, both ways. Kept: nothing; the adapted copy of w is made for each use.

Cost: two gradients a step (fo), and two more for the product with the Hessian (hf); bytes as FedAvg.

Newcomers: like every client, ``adapt_steps`` of size alpha from w, on their own training data.

Deviations: B_2 is the batch that other methods train on, B_1 and B_3 have separate streams. Momentum and weight
decay of the training settings act on the steps of size beta, not on the adaptation. The training loss is that of w_i~.

Pitfalls: the official pFedMe code adapts on the test batch. Differences of gradients (``hvp`` difference) see the kinks
of ReLU networks and cancel in single precision where delta is small. Adapting with the training rate in place of alpha
is fine-tuned FedAvg.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    clone,
    map_params,
)
from engine.core.registry import ALGORITHMS, Options, Positive
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import SGD, Live, Trained, for_each_client, local_sgd
from engine.training.roles import OneGlobalModel


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("beta", "adapt_steps", "hvp", "delta")

    variant: Literal["hf", "fo"] = Field(
        "hf", description="hf: with the Hessian, the gradient of the adapted loss; fo: first-order, without it."
    )
    alpha: float = Field(
        0.01,
        ge=0,
        le=1e6,
        title="α",
        description="Size of an adaptation step; larger = more personal.",
        json_schema_extra={"tune": (0.001, 0.3, "log")},
    )
    beta: Positive | Literal["training"] = Field(
        "training", title="β", description="Learning rate of the global model.", json_schema_extra={"training": "lr"}
    )
    adapt_steps: int = Field(
        1, ge=1, le=1_000_000, description="Adaptation steps of each client before evaluation; more = more personal."
    )
    hvp: Literal["exact", "difference"] = Field(
        "exact", description="Product with the Hessian: by differentiating twice, or from two gradients near w_i."
    )
    delta: float = Field(
        1e-3, gt=0, le=1e6, title="δ", description="Distance of the two gradients, where hvp is difference."
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "per_fedavg",
    title="Per-FedAvg",
    paper="Fallah, Mokhtari, Ozdaglar, NeurIPS 2020",
    family="Regularized toward a shared model",
    style=Style(hue="olive", dash="solid", symbol="x"),
    privacy=("client",),
)
@dataclass(frozen=True)
class PerFedAvg(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.alpha == 0:
            task.note("per_fedavg with alpha=0: no adaptation, this is fedavg with learning rate beta")
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        w = self._train(broadcast(state.global_params, cohort.size), cohort, task)
        new = task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights)
        return State(new), Diagnostics(w.loss, w.gradient_evaluations)

    def _train(self, start: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """E meta-steps of each participant. The loss is of the adapted model, on the common batch B_2."""
        h, sgd, clients = self.hparams, SGD.of(task, float(self.hparams.beta)), list(cohort.client_ids)
        plans = [task.cohort_of(clients, cohort.round, "adaptation batches").plan, cohort.plan]  # B_1, B_2
        if h.variant == "hf":
            plans.append(task.cohort_of(clients, cohort.round, "Hessian batches").plan)  # B_3

        def step(c: Live, first: Batch, second: Batch, third: Batch | None = None) -> Tensor:
            adapted = clone(c.w)
            c.task.backend.accumulate(adapted, c.w, first, -h.alpha, 1.0)
            loss, g = c.task.grad(adapted, second)
            if third is not None:
                curvature = self._hessian_vector(c.w, g, third, c.task)
                g = {n: torch.sub(d, curvature[n], alpha=h.alpha) for n, d in g.items()}
            sgd.step_along(c, "w", g)
            return loss

        out = for_each_client(task, plans, {"w": start}, step, same=("per_fedavg", sgd.options, h))
        passes = (1, 1, 2)  # the product with the Hessian is counted as two gradients
        cost = sum(n * plan.gradient_evaluations for n, plan in zip(passes, plans, strict=False))
        return Trained(out.w, out.loss, cost)

    def _hessian_vector(self, w: ClientParams, vector: ClientParams, batch: Batch, task: Task) -> ClientParams:
        """hess f(w; B) vector, exactly or as [grad f(w + delta vector) - grad f(w - delta vector)] / (2 delta)."""
        if self.hparams.hvp == "exact":
            return task.backend.hessian_vector(w, vector, batch)
        delta, product = self.hparams.delta, map_params(torch.zeros_like, w)
        for side in (delta, -delta):
            beside = {n: torch.add(p, vector[n], alpha=side) for n, p in w.items()}
            task.backend.unclipped.accumulate(product, beside, batch, 0.5 / side, 1.0)
        return product

    def _adapt(self, state: State, clients: Cohort, task: Task) -> Predictor:
        """Each client's copy of w after its adaptation steps, which have no momentum and no weight decay."""
        plan = task.plan(clients, "adapt", self.hparams.adapt_steps)
        start = broadcast(state.global_params, clients.size)
        own = local_sgd(task, start, clients, SGD(self.hparams.alpha), plan=plan)
        return Predictor.of_everyone(own.params, clients)

    def personalized(self, state: State, task: Task) -> Predictor:
        return self._adapt(state, task.everyone(), task)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        return self._adapt(state, newcomers, task)
