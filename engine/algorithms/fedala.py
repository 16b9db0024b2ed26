"""FedALA: each client mixes the received model into its own before it trains, with a learned weight per parameter.

Zhang, Hua, Wang, Song, Xue, Ma, Guan. FedALA: Adaptive Local Aggregation for Personalized Federated Learning. AAAI
2023. https://arxiv.org/abs/2212.01197, Algorithm 1.

    T_i~ <- T_i + (w - T_i) W_i                                 in the last layers; w in the others
    for a batch B of a share of the data:
        W_i  <- W_i - weight_lr grad f_i(T_i~; B) (w - T_i)     by parameter; kept in [0, 1]
        T_i~ <- T_i + (w - T_i) W_i
    T_i  <- T_i~
    E times, for a batch B:
        T_i  <- T_i - lr grad f_i(T_i; B)
    w    <- sum_i (m_i / m) T_i                                 over the cohort

Idea: FedAvg overwrites a client's model with the global one, of which only some parameters fit its data. Here each
client keeps, parameter by parameter, as much of its own last layers as lowers its loss. W_i is a share between the own
model (0) and the global one (1), starts at 1, is trained by gradient descent like a model, and stays with the client.
The lower layers, which hold general features, are always the received ones.

When: only some parameters of the global model suit a client, and which ones has to be learned.

Sent: w, both ways. Kept: T_i, and W_i for the last layers.

Cost: one local training and the gradients of ``share`` of the data a round; bytes as FedAvg. In a client's second
participation W_i is trained until the loss settles: passes over the same batches until the standard deviation of the
last ten losses is below ``threshold``, at least 11 and at most ``max_passes``.

Newcomers: their first participation, a local training from w.

Deviations: the first participation has no T_i to mix and starts from w. Clients mix when they take part; the published
code mixes all clients every round. Its batches are a contiguous part of the data as stored; ours a part of a
permutation. It stops by the loss of the last batch, ours by the mean over a pass, and it has no limit of passes.
use="initialized" evaluates T_i~ before local training, made anew from the averaged w, as the published results do; W_i
is then not kept.

Pitfalls: FL-bench stores W_i in one object for all clients, so each mixes by the weights of the one before. easyFL
never clears the gradients. With weight_lr=0, or with no layers to mix, the global model is that of FedAvg, and T_i the
client's last local copy.

Diagnostics: share_of_global, the mean of each client's W_i; passes, the mean number of passes of the participants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from engine.core.devices import sent
from engine.core.params import ClientParams, SharedParams, broadcast, by_client, flatten, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import part
from engine.training.local import Live, Outcome, for_each_client, local_sgd
from engine.training.roles import PersonalModels

SETTLED_OVER = 10  # the losses of this many passes decide when the first training of the weights ends


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("threshold", "max_passes", "use")

    layers: int = Field(
        1,
        ge=0,
        le=1_000_000,
        title="p",
        description="Last layers that each client mixes; more = more personal, 0: global model as in fedavg.",
    )
    share: float = Field(
        0.8,
        gt=0,
        le=1,
        title="s",
        description="Share of the local data that trains the weights; larger = more exact, and more gradients.",
    )
    weight_lr: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="η",
        description="Learning rate of the weights; larger = adapts faster, 0: global model as in fedavg.",
        json_schema_extra={"tune": [0.1, 10.0, "log"]},
    )
    threshold: float = Field(
        0.1,
        gt=0,
        le=1e6,
        description="Deviation of the loss that ends a client's first training of the weights; smaller = longer.",
    )
    max_passes: int = Field(
        50, ge=1, le=1_000_000, description="Maximum number of passes of a client's first training of the weights."
    )
    use: Literal["trained", "initialized"] = Field(
        "trained", description="Personalized model: after local training, or before it as in the published results."
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # T_i
    weights: ClientParams  # W_i, of the last layers
    participations: Int[Tensor, "N"]


@dataclass(frozen=True)
class Mixed:
    """The mixture from which each client of a cohort starts."""

    params: ClientParams  # T_i~ [S, ...]
    weights: ClientParams  # W_i [S, ...]
    passes: Int[Tensor, "S"]
    gradient_evaluations: int


@ALGORITHMS.register(
    "fedala",
    title="FedALA",
    paper="Zhang et al., AAAI 2023",
    family="Regularized toward a shared model",
    style=Style(hue="sky", dash="dashdot", symbol="circle"),
    privacy=("client",),
    until_settled=True,
)
@dataclass(frozen=True)
class FedAla(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if h.layers == 0 or h.weight_lr == 0:
            reason = "layers=0: nothing is mixed" if h.layers == 0 else "weight_lr=0: the weights stay at 1"
            task.note(f"fedala with {reason}, the global model is that of fedavg")
        start = task.initial_model()
        ones = {n: torch.ones_like(start[n]) for n in self._mixed_names(task)}
        weights = task.for_clients(ones) if ones else {}
        return State(start, task.initial_clients(), weights, torch.zeros_like(task.data.train.sizes))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        mixed = self._mixed(state, cohort, task, "ala")
        trained = local_sgd(task, mixed.params, cohort)
        new = State(
            task.channel.aggregate(trained.params, state.global_params, cohort, cohort.weights),
            scatter(state.personal_params, trained.params, cohort.clients),
            scatter(state.weights, mixed.weights, cohort.clients),
            state.participations.index_add(0, cohort.clients, torch.ones_like(cohort.clients)),
        )
        values: dict[str, float | Tensor] = {"passes": mixed.passes.to(task.dtype).mean()}
        if mixed.weights:
            shares = flatten(mixed.weights).mean(1)
            values["share_of_global"] = by_client(shares, cohort.clients, task.num_clients)
        return new, Diagnostics(trained.loss, trained.gradient_evaluations + mixed.gradient_evaluations, values)

    def personalized(self, state: State, task: Task) -> Predictor:
        if self.hparams.use == "trained":
            return Predictor(state.personal_params, is_per_client=True)
        everyone = task.everyone(stream="ala evaluation")
        return Predictor.of_everyone(self._mixed(state, everyone, task, "ala evaluation").params, everyone)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        first = local_sgd(task, broadcast(state.global_params, newcomers.size), newcomers)
        return Predictor.of_everyone(first.params, newcomers)

    def _mixed_names(self, task: Task) -> tuple[str, ...]:
        """The parameters of the last layers."""
        layers = task.model.layers
        return tuple(n for layer in layers[max(0, len(layers) - self.hparams.layers) :] for n in layer)

    def _mixed(self, state: State, cohort: Cohort, task: Task, stream: str) -> Mixed:
        """The weights of a cohort after training them on batches of ``stream``, and the mixtures with these weights."""
        h, names, earlier = self.hparams, self._mixed_names(task), state.participations[cohort.clients]
        received = broadcast(state.global_params, cohort.size)
        own, weights = gather(part(state.personal_params, names), cohort.clients), gather(state.weights, cohort.clients)
        place = {client: s for s, client in enumerate(cohort.client_ids)}
        times = dict(zip(cohort.client_ids, earlier.tolist(), strict=True))
        losses: dict[int, list[float]] = {client: [] for client in cohort.client_ids}
        left = [client for client in cohort.client_ids if times[client] and names and h.weight_lr]
        passes, cost = task.passes(left, cohort.round, stream, h.share) if left else None, 0
        while passes is not None:
            rows = sent([place[client] for client in passes.client_ids], task.device)
            out = self._one_pass(state, gather(own, rows), gather(weights, rows), passes, task)
            weights, cost = scatter(weights, out.weights, rows), cost + passes.plan.gradient_evaluations
            for client, loss in zip(passes.client_ids, out.loss.tolist(), strict=True):
                losses[client].append(loss)
            left = [c for c in passes.client_ids if times[c] == 1 and not self._is_settled(losses[c])]
            if len(left) < passes.size:
                passes = task.passes(left, cohort.round, stream, h.share) if left else None
        mixture = {n: p.lerp(received[n], weights[n]) for n, p in own.items()}  # exactly w where the weights are 1
        count = sent([len(losses[client]) for client in cohort.client_ids], task.device)
        return Mixed(received | mixture, weights, count, cost)

    def _one_pass(self, state: State, own: ClientParams, weights: ClientParams, passes: Cohort, task: Task) -> Outcome:
        """The weights after a pass, and its losses; ``own`` and ``weights`` in the order of ``passes``."""
        received = broadcast(state.global_params, passes.size)
        gap = {n: received[n] - p for n, p in own.items()}

        def step(c: Live, batch: Batch) -> Tensor:
            mixture = {n: c.own[n].lerp(c.received[n], share) for n, share in c.weights.items()}
            loss, g = c.task.grad(c.received | mixture, batch, trained=tuple(mixture))
            for n, share in c.weights.items():
                share.addcmul_(g[n], c.gap[n], value=-self.hparams.weight_lr).clamp_(0, 1)
            return loss

        fixed, same = {"received": received, "own": own, "gap": gap}, ("fedala", self.hparams)
        return for_each_client(task, passes.plan, {"weights": weights}, step, fixed=fixed, same=same)

    def _is_settled(self, losses: Sequence[float]) -> bool:
        """Whether a first training of the weights ends after these losses."""
        last = torch.tensor(losses[-SETTLED_OVER:], dtype=torch.float64)
        is_flat = len(losses) > SETTLED_OVER and bool(last.std(correction=0) < self.hparams.threshold)
        return is_flat or len(losses) >= self.hparams.max_passes
