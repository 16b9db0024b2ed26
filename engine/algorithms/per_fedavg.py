"""Per-FedAvg: a global model that is good after one step of adaptation on a client's data.

Fallah, Mokhtari, Ozdaglar. Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning
Approach. NeurIPS 2020. https://arxiv.org/abs/2002.07948, Algorithm 1.

    w_i <- w
    E times, for batches B_1, B_2, B_3:
        w_i~ <- w_i - alpha grad f_i(w_i; B_1)
        g_i  <- grad f_i(w_i~; B_2)
        w_i  <- w_i - beta g_i                                  variant fo
        w_i  <- w_i - beta [g_i - alpha H_i(w_i; B_3) g_i]      variant hf; H_i is the Hessian of f_i
    w   <- sum_i m_i / m w_i                                    over the cohort

Idea: FedAvg minimises how well w does; this minimises how well w does after each client has taken a step of its own.
The gradient of that goes through the step, hence the Hessian. The first-order variant leaves it out.

Travels: w, both ways. Stays: nothing; the adapted copy of w is made anew for each use.

Cost: two gradients a step (fo), and two more for the product with the Hessian (hf); bytes as FedAvg.

Newcomers: as everybody: ``adapt_steps`` of size alpha from w, on their own training data.

Deviations: B_2 is the batch that other methods train on, B_1 and B_3 have streams of their own. Momentum and weight
decay of the training settings act on the steps of size beta, not on the adaptation. The training loss is that of w_i~.

Pitfalls: the official pFedMe code adapts on the test batch. Differences of gradients (``hvp`` difference) see the kinks
of ReLU networks and cancel in single precision where delta is small. Adapting with the training rate in place of alpha
is fine-tuned FedAvg.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    clone,
    in_client_order,
    map_params,
    take,
    weighted_mean,
)
from engine.core.registry import ALGORITHMS, Options, Positive
from engine.federation.batches import Batch, Cohort, Plan
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.local import Step, Trained, in_chunks, local_sgd, mean_loss


class Hparams(Options):
    variant: Literal["hf", "fo"] = Field(
        "hf", description="hf: with the Hessian, the gradient of the adapted loss; fo: first-order, without it."
    )
    alpha: float = Field(
        0.01, ge=0, le=1e6, title="α", description="Size of an adaptation step; larger = more personal."
    )
    beta: Positive | Literal["training"] = Field(
        "training", title="β", description="Learning rate of w.", json_schema_extra={"training": "lr"}
    )
    adapt_steps: int = Field(
        1, ge=1, le=1_000_000, description="Adaptation steps of each client before use; more = more personal."
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
    family="Regularized towards a shared model",
)
@dataclass(frozen=True)
class PerFedAvg:
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.alpha == 0:
            task.note("per_fedavg with alpha=0: no adaptation, this is fedavg with learning rate beta")
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        w = self._train(broadcast(state.global_params, cohort.size), cohort, task)
        return State(weighted_mean(w.params, cohort.weights)), Diagnostics(w.loss, w.gradient_evaluations)

    def _train(self, start: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """E meta-steps of each participant. The loss is of the adapted model, on the common batch B_2."""
        h, clients = self.hparams, cohort.clients.tolist()
        inner = task.cohort_of(clients, cohort.round, "adaptation batches").plan  # B_1
        third = task.cohort_of(clients, cohort.round, "Hessian batches").plan  # B_3

        def chunk(rows: slice, part: Plan) -> tuple[list[ClientParams], Tensor]:
            w = clone(take(start, rows))
            slope = map_params(torch.zeros_like, w)
            step = Step(task, float(h.beta), 0.0, w)
            first, last = (p.part(rows.start, rows.stop).batches(task.data.train) for p in (inner, third))

            def on_batch(live: slice, batch: Batch) -> Tensor:
                local, g = take(w, live), take(slope, live)
                loss = self._meta_gradient(g, local, next(first), batch, last, task)
                step.along(local, g)
                return loss

            return [w], mean_loss(task, part, on_batch)

        (w,), loss = in_chunks(task, cohort.plan, chunk)
        cost = inner.gradient_evaluations + cohort.plan.gradient_evaluations
        return Trained(w, loss, cost + (2 * third.gradient_evaluations if h.variant == "hf" else 0))

    def _meta_gradient(
        self, out: ClientParams, w: ClientParams, first: Batch, second: Batch, third: Iterator[Batch], task: Task
    ) -> Tensor:
        """out <- the direction of a meta-step at ``w``; returns the losses of the adapted models on ``second``."""
        alpha, adapted = self.hparams.alpha, clone(w)
        task.backend.accumulate(adapted, w, first, -alpha, 1.0)
        loss = task.backend.accumulate(out, adapted, second, 1.0, 0.0)
        if self.hparams.variant == "hf":
            curvature = self._hessian_vector(w, out, next(third), task)
            for name, g in out.items():
                g.add_(curvature[name], alpha=-alpha)
        return loss

    def _hessian_vector(self, w: ClientParams, vector: ClientParams, batch: Batch, task: Task) -> ClientParams:
        """hess f(w; B) vector, exactly or as [grad f(w + delta vector) - grad f(w - delta vector)] / (2 delta)."""
        if self.hparams.hvp == "exact":
            return task.backend.hessian_vector(w, vector, batch)
        delta, product = self.hparams.delta, map_params(torch.zeros_like, w)
        for side in (delta, -delta):
            beside = {n: torch.add(p, vector[n], alpha=side) for n, p in w.items()}
            task.backend.accumulate(product, beside, batch, 0.5 / side, 1.0)
        return product

    def _adapt(self, state: State, clients: Cohort, task: Task) -> Predictor:
        """Steps like those that training looks ahead to: without momentum and decay."""
        plan = task.plan(clients, "adapt", self.hparams.adapt_steps)
        start = broadcast(state.global_params, clients.size)
        plain = replace(task, training=task.training.model_copy(update={"momentum": 0.0, "weight_decay": 0.0}))
        own = local_sgd(plain, start, clients, lr=self.hparams.alpha, plan=plan)
        return Predictor(in_client_order(own.params, clients.clients), is_per_client=True)

    def personalized(self, state: State, task: Task) -> Predictor:
        return self._adapt(state, task.everyone(), task)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return Predictor(state.global_params, is_per_client=False)

    def shared(self, state: State) -> Shared:
        return Shared(down=(state.global_params,), up=(state.global_params,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        return self._adapt(state, newcomers, task)
