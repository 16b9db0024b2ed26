"""FedDBE: FedAvg, with the bias of a client's features in a memory of its own, and shared features held at a consensus.

Zhang, Hua, Cao, Wang, Song, Xue, Ma, Guan. Eliminating Domain Bias for Federated Learning in Representation Space.
NeurIPS 2023. https://arxiv.org/abs/2311.14975, Algorithm 1.

    Before round 1, all clients:
        r_i <- running mean of the features in a local training from the common start
        z^  <- sum_i (m_i / m) r_i
    In each round:
        w_i, r_i <- w, 0                                        w = (phi, h)
        E times, for a batch B:
            r_i <- (1 - a) r_i + a mean_b phi_i(x_b)            a: momentum
            L   <- CE(h_i(phi_i(x) + z_i), y) + kappa/2 mean_F (r_i - z^)^2
            (w_i, z_i) <- (w_i, z_i) - lr grad L
        w   <- sum_i (m_i / m) w_i                              over the cohort

Idea: Trained on skewed data, features drift to what is particular to a client. Here the drift has a place of its own:
a vector z_i that is added to every feature of the client (personalized representation bias memory). The shared body
keeps its mean feature near a consensus of all clients (mean regularization), so its features stay unbiased.

When: labels differ so much that averaging biases the features. Needs: a body under the head (dnn, cnn).

Sent: w, both ways; in round 1 also w and z^ down and r_i up, for all clients. Kept: z_i.

Cost: gradients and bytes as FedAvg; in round 1 one additional local training of every client and one more model down to
each, including those that do not take part. With momentum < 1, for each gradient one forward pass of the body more.

Newcomers: their z_i from zero, trained for one participation together with a copy of w; it is kept and used with the
server's w.

Deviations: the factor 1/2 is the published code's. The training before round 1 is on the cross-entropy alone; its
models are dropped. It is left out if kappa is 0, as nothing else uses z^. If no r_i arrives, there is no pull, and the
next round repeats it. The recorded loss is the cross-entropy.

Pitfalls: a small momentum weakens the pull by the same factor, and r_i starts at zero without a correction. PFLlib's
defaults (kappa 0) are the memory alone. The global model has no z_i: its accuracy is not the personalized one.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.backends import Extras, OnFeatures, add_silently, batch_weight, mean_cross_entropy
from engine.core.params import ClientParams, SharedParams, broadcast, gather, in_client_order, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.models import Model
from engine.task import Diagnostics, Forward, Predictor, Task
from engine.training.body_head import part, require_body
from engine.training.local import SGD, Live, Trained, for_each_client, local_sgd
from engine.training.roles import PersonalModels

MEMORY = "memory"  # z_i, with a client's parameters in training and prediction


class Hparams(Options):
    kappa: float = Field(
        50.0,
        ge=0,
        le=1e6,
        title="κ",
        description="Pull of the mean feature toward the consensus; larger = nearer, 0 = memory only, no pull.",
        json_schema_extra={"tune": [1.0, 500.0, "log"]},
    )
    momentum: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Weight of the newest batch in the running mean of the features; 1 takes each batch alone.",
        json_schema_extra={"tune": [0.1, 1.0, "lin"]},
    )
    memory: bool = Field(True, description="Whether each client adds a vector of its own to the features.")


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # z_i; empty without memory
    consensus: Float[Tensor, "F"]  # z^
    is_ready: bool  # whether the consensus has been computed; there is no pull before


@ALGORITHMS.register(
    "feddbe",
    title="FedDBE",
    paper="Zhang et al., NeurIPS 2023",
    family="Split models",
    style=Style(hue="green", dash="dot", symbol="cross"),
)
@dataclass(frozen=True)
class FedDbe(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "feddbe")
        if not self.hparams.kappa and not self.hparams.memory:
            task.note("feddbe with kappa=0 and without memory is fedavg")
        zero = torch.zeros(task.feature_width, dtype=task.dtype, device=task.device)
        memories = task.for_clients({MEMORY: zero}) if self.hparams.memory else {}
        return State(task.initial_model(), memories, zero, is_ready=False)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        size = sum(p.nbytes for p in state.global_params.values())
        consensus, cost, up, down = state.consensus, 0, cohort.size * size, cohort.size * size
        is_ready = state.is_ready or not self.hparams.kappa
        if not is_ready:
            consensus, cost = self._consensus(state, task)
            is_ready = consensus is not state.consensus
            up += task.num_clients * consensus.nbytes
            down += task.num_clients * (size + is_ready * consensus.nbytes)
        start = replace(state, consensus=consensus, is_ready=is_ready)
        trained = self._train(start, gather(state.personal_params, cohort.clients), cohort, task)
        uploads = part(trained.params, task.model.names)
        new = State(
            task.channel.aggregate(uploads, state.global_params, cohort, cohort.weights),
            scatter(state.personal_params, trained.params, cohort.clients),
            consensus,
            is_ready,
        )
        evaluations = trained.gradient_evaluations + cost
        return new, Diagnostics(trained.loss, evaluations, bytes_up=up, bytes_down=down)

    def _consensus(self, state: State, task: Task) -> tuple[Float[Tensor, "F"], int]:
        """z^, and its cost in gradient evaluations: a local training of all clients, whose models are dropped.

        If no upload arrives, z^ stays.
        """
        everyone = task.cohort_of(list(range(task.num_clients)), 0, "dbe init")
        sgd, share = SGD.of(task), self.hparams.momentum

        def step(c: Live, batch: Batch) -> Tensor:
            c.mean.lerp_(_mean(c.task.backend.features(c.w, batch.x), batch_weight(batch)), share)
            return sgd.step(c, "w", batch)

        start, mean = broadcast(task.initial_model(), everyone.size), self._zeros(task, everyone)
        same = "feddbe init", sgd.options, self.hparams
        uploads = {"consensus": for_each_client(task, everyone.plan, {"w": start, "mean": mean}, step, same=same).mean}
        received = task.channel.aggregate(uploads, {"consensus": state.consensus}, everyone, everyone.weights)
        return received["consensus"], everyone.plan.gradient_evaluations

    def _train(self, state: State, memories: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """Local training of w_i and z_i, from w and the given memories."""
        kappa, share, sgd = self.hparams.kappa if state.is_ready else 0.0, self.hparams.momentum, SGD.of(task)
        start = broadcast(state.global_params, cohort.size) | memories
        if not kappa and not memories:
            return local_sgd(task, start, cohort)
        objective = OnFeatures(partial(_loss, kappa, share))
        fixed = broadcast({"consensus": state.consensus}, cohort.size)

        def step(c: Live, batch: Batch) -> Tensor:
            extras = {"consensus": c.consensus}
            if kappa and share < 1:
                extras |= {"earlier": (1 - share) * c.mean}
                c.mean.lerp_(_mean(c.task.backend.features(c.w, batch.x), batch_weight(batch)), share)
            return sgd.step(c, "w", batch, objective=objective, extras=extras)

        mean, same = self._zeros(task, cohort), ("feddbe", sgd.options, self.hparams, kappa)
        out = for_each_client(task, cohort.plan, {"w": start, "mean": mean}, step, fixed=fixed, same=same)
        return Trained(out.w, out.loss, cohort.plan.gradient_evaluations)

    def _zeros(self, task: Task, cohort: Cohort) -> Float[Tensor, "S F"]:
        """r_i before the first batch, and z_i before the first participation."""
        return torch.zeros(cohort.size, task.feature_width, dtype=task.dtype, device=task.device)

    def personalized(self, state: State, task: Task) -> Predictor:
        return self._predictor(state, state.personal_params, task)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        if not self.hparams.memory:
            return self.personalized(state, task)
        trained = self._train(state, {MEMORY: self._zeros(task, newcomers)}, newcomers, task)
        own = in_client_order(part(trained.params, [MEMORY]), newcomers.clients)
        return self._predictor(state, own, task)

    def forward(self, model: Model) -> Forward | None:
        """h(phi(x) + z_i); None without memory."""
        if not self.hparams.memory:
            return None

        def forward(params: SharedParams, x: Tensor) -> Tensor:
            return model.head_logits(params, model.features(params, x) + params[MEMORY])

        return forward

    def _predictor(self, state: State, memories: ClientParams, task: Task) -> Predictor:
        if not self.hparams.memory:
            return Predictor(state.global_params, is_per_client=False)
        params = broadcast(state.global_params, task.num_clients) | memories
        return Predictor(params, is_per_client=True, forward=self.forward(task.model))


def _loss(
    kappa: float,
    share: float,
    model: Model,
    params: ClientParams,
    features: Tensor,
    y: Tensor,
    weight: Tensor,
    extras: Extras,
) -> Tensor:
    """The cross-entropy, which is recorded, and the pull of the mean feature."""
    moved = features + params[MEMORY][:, None] if MEMORY in params else features
    data = mean_cross_entropy(model.stacked_head_logits(params, moved), y, weight)
    if not kappa:
        return data
    mean = share * _mean(features, weight) + extras.get("earlier", 0.0)
    return add_silently(data, kappa / 2 * (mean - extras["consensus"]).square().mean(-1))


def _mean(features: Float[Tensor, "A B F"], weight: Float[Tensor, "A B"]) -> Float[Tensor, "A F"]:
    """Each client's mean feature of a batch."""
    return (features * weight[..., None]).sum(-2)
