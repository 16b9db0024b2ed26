"""FedAS: each client aligns the received body with its own features, and bodies are weighted by their gradients.

Yang, Huang, Ye. FedAS: Bridging Inconsistency in Personalized Federated Learning. CVPR 2024.
https://openaccess.thecvf.com/content/CVPR2024/html/Yang_FedAS_Bridging_Inconsistency_in_Personalized_Federated_Learning_CVPR_2024_paper.html

    p_ic  <- mean_j phi_i(x_j)              over i's samples j of class c, under its own body of the last participation
    phi_i <- phi
    align_steps times, for a batch B:
        phi_i <- phi_i - align_lr grad sum_c mean_b ||phi_i(x_b) - p_ic||^2 / F         over the b of class c
    E times, for a batch B:
        (phi_i, h_i) <- (phi_i, h_i) - lr grad f_i(phi_i, h_i; B)
    t_i   <- sum_B ||grad f_i(phi_i, h_i; B)||^2            over the batches of one pass
    phi   <- sum_i t_i phi_i / sum_i t_i                        over the cohort

Idea: As in FedPer the body is shared and heads are own. Two things do not fit: the received body and the client's old
head, and the bodies of clients that have trained long and those of clients that rarely take part. So a client first
bends the received body toward the features that its head knows. And the server weights each body by the trace of the
client's Fisher information, so that clients with more left to learn, and those with more batches, count more.

When: labels differ, and some clients take part rarely or have trained much less than others. Needs: a body under the
head (dnn, cnn).

Sent: phi both ways, and t_i up. Kept: phi_i and h_i.

Cost: align_steps and E steps per round, each counted in full, a gradient on all data for t_i and a forward pass for
p_ic; bytes as FedAvg without the head.

Newcomers: a local training of the server's body and the common initial head; both are kept.

Deviations: a client's first participation has no features to align with; the published code takes those of the random
start. t_i is the sum of squared norms of batch gradients, as in the code; the paper's Fisher information has gradients
of single samples. With clip_norm the batch gradients in t_i are clipped too.

Pitfalls: the loss of the alignment pulls each sample to the mean of its class, so it does not vanish where the received
body equals the own one. In the published code, clients align the server's own tensors in place, so that later clients
start from what earlier ones made. FL-bench averages the heads too.

Diagnostics: weight, the share of each participant's body in the average.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from engine.backends import Extras, OnFeatures, of_classes
from engine.core.devices import sent
from engine.core.params import ClientParams, SharedParams, broadcast, by_client, dot, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.models import Model
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.body_head import part, require_body
from engine.training.features import stacked_features
from engine.training.local import SGD, Live, Trained, for_each_client, local_sgd

Steps = Annotated[int, Field(ge=0, le=1_000_000)]


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("weights",)

    align_steps: Steps | Literal["training"] = Field(
        "training",
        description="Steps of the body toward the client's old features; more = closer to them.",
        json_schema_extra={"training": "local_steps"},
    )
    align_lr: float = Field(
        0.01,
        gt=0,
        le=1e6,
        description="Learning rate of these steps; larger = closer to the old features.",
        json_schema_extra={"tune": [0.001, 1.0, "log"]},
    )
    weights: Literal["fisher", "samples"] = Field(
        "fisher", description="Weights of the bodies: squared norms of the clients' gradients, or numbers of samples."
    )


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # phi
    personal_params: ClientParams  # phi_i and h_i
    participations: Int[Tensor, "N"]


@ALGORITHMS.register(
    "fedas",
    title="FedAS",
    paper="Yang, Huang, Ye, CVPR 2024",
    family="Split models",
    style=Style(hue="violet", dash="dot", symbol="triangle-up"),
)
@dataclass(frozen=True)
class FedAs:
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "fedas")
        body = part(task.initial_model(), task.model.body)
        return State(body, task.initial_clients(), torch.zeros_like(task.data.train.sizes))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        own = gather(state.personal_params, cohort.clients)
        aligned = self._aligned(state, own, cohort, task)
        trained = local_sgd(task, aligned.params, cohort)
        weights, cost = cohort.weights, aligned.gradient_evaluations + trained.gradient_evaluations
        if self.hparams.weights == "fisher":
            fisher = _fisher(trained.params, cohort, task)
            total = fisher.sum()
            weights = torch.where((total > 0) & total.isfinite(), fisher / total, weights)
            cost += sum(task.train_sizes[client] for client in cohort.client_ids)
        bodies = part(trained.params, task.model.body)
        body, counted = self._averaged(state.shared_params, bodies, weights, cohort, task)
        new = State(
            body,
            scatter(state.personal_params, trained.params, cohort.clients),
            state.participations.index_add(0, cohort.clients, torch.ones_like(cohort.clients)),
        )
        values: dict[str, float | Tensor] = {"weight": counted}
        return new, Diagnostics(trained.loss, cost, values)

    def _aligned(self, state: State, own: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """The received body, aligned with the features of clients that have trained before, and own heads."""
        h, start = self.hparams, own | broadcast(state.shared_params, cohort.size)
        earlier = state.participations[cohort.clients].tolist()
        place = {client: s for s, (client, times) in enumerate(zip(cohort.client_ids, earlier, strict=True)) if times}
        if h.align_steps == 0 or not place:
            return Trained(start, torch.zeros(cohort.size, dtype=task.dtype, device=task.device), 0)
        steps = None if isinstance(h.align_steps, str) else h.align_steps
        again = task.cohort_of(list(place), cohort.round, "align", steps)
        rows = sent([place[client] for client in again.client_ids], task.device)
        means = stacked_features(task, gather(own, rows), task.data.train, again.clients).class_means
        sgd, extras = SGD.of(task, h.align_lr), {"means": means}
        out = local_sgd(
            task, gather(start, rows), again, sgd, trained=task.model.body, objective=OnFeatures(_gap), extras=extras
        )
        return Trained(scatter(start, out.params, rows), out.loss, out.gradient_evaluations)

    def _averaged(
        self, received: SharedParams, bodies: ClientParams, weights: Float[Tensor, "S"], cohort: Cohort, task: Task
    ) -> tuple[SharedParams, Float[Tensor, "N"]]:
        """The mean of the bodies, and the weight of each; t_i is sent with each body."""
        num_extra = int(self.hparams.weights == "fisher")
        arrived = task.channel.deliver(bodies, broadcast(received, cohort.size), cohort, weights, num_extra=num_extra)
        counted = by_client(arrived.weights, cohort.clients[arrived.rows], task.num_clients)
        return task.channel.combine(arrived, received, cohort) if arrived.size else received, counted

    def personalized(self, state: State, task: Task) -> Predictor:
        return Predictor(state.personal_params, is_per_client=True)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        body = state.shared_params
        number = {"fisher": torch.zeros_like(next(iter(body.values())).view(-1)[0])}
        return Shared(down=(body,), up=(body, number) if self.hparams.weights == "fisher" else (body,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        start = broadcast(task.initial_model() | state.shared_params, newcomers.size)
        return Predictor.of_everyone(local_sgd(task, start, newcomers).params, newcomers)


def _gap(model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras) -> Tensor:
    """The sum over the classes of a batch of the mean squared distance to the class mean."""
    is_sample = (weight > 0).to(weight.dtype)
    of_its_class = ((y[:, :, None] == y[:, None]) * is_sample[:, None]).sum(-1)
    gaps = (features - of_classes(extras["means"], y)).square().mean(-1)
    return (gaps * is_sample / of_its_class.clamp(min=1)).sum(-1)


def _fisher(models: ClientParams, cohort: Cohort, task: Task) -> Float[Tensor, "S"]:
    """t_i: the squared norms of the gradients at ``models``, summed over one pass."""
    passes = task.passes(cohort.client_ids, cohort.round, "fisher")
    place = {client: s for s, client in enumerate(cohort.client_ids)}
    rows = sent([place[client] for client in passes.client_ids], task.device)

    def step(c: Live, batch: Batch) -> Tensor:
        loss, g = c.task.grad(c.models, batch)
        c.fisher.add_(dot(g, g))
        return loss

    start = torch.zeros(cohort.size, dtype=task.dtype, device=task.device)
    fixed = {"models": gather(models, rows)}
    fisher: Tensor = for_each_client(task, passes.plan, {"fisher": start}, step, fixed=fixed, same="fisher").fisher
    return start.index_copy(0, rows, fisher)
