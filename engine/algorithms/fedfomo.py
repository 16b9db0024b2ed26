"""FedFomo: each client asks for models of others and moves toward those that lower its own validation loss.

Zhang, Sapra, Fidler, Yeung, Alvarez. Personalized Federated Learning with First Order Model Optimization. ICLR 2021.
https://arxiv.org/abs/2012.08565, equations 4 to 6.

    c_n    <- (V_i(b_i) - V_i(theta_n)) / ||theta_n - b_i||     n: own and asked models; 0 where equal
    A_in   <- A_in + c_n / |sum_n c_n|
    s_n    <- max(c_n, 0) / sum_n max(c_n, 0)
    b_i    <- b_i + sum_n s_n (theta_n - b_i)                   b_i if no c_n is positive
    theta_i <- b_i
    E times, for a batch B:
        theta_i <- theta_i - lr grad f_i(theta_i; B)

Idea: No server averages. A client holds out some samples, V_i, and tries the models of others on them; each weighs by
how much it would lower that loss for the distance to it, a first-order approximation of the best mixture. b_i is where
the client's last training started. What helped before is asked for again: A_in remembers.

When: only some clients help one another, and each has enough samples to hold some out.

Sent: the asked models down, theta_i up. Kept: theta_i and b_i; the server has the last uploads and A.

Cost: a local training on the samples that are not held out, and up to models + 2 forward passes over those: with the
defaults about half as many operations again, which are not counted as gradients, so that a gradient takes about twice
FedAvg's time. Up to ``models`` times FedAvg's bytes down.

Newcomers: ask for random models, from the common start, and train once from their mixture.

Deviations: Euclidean norm, as the paper; the authors' code takes the L1 norm by default. epsilon falls from round to
round, theirs from local epoch to local epoch. Held-out samples are drawn once for the whole run; training never uses
them, so the batches are this method's own. A client with one sample trains on it and measures on it. In its first
participation a client asks for nothing and starts from the common start.

Pitfalls: PFLlib holds out the last fifth in stored order, adds the c_n as they are, and keeps the trained model where
nothing improves; easyFL asks the least similar clients, and adds weighted models, not differences, to the old one.
A small held-out set ranks models by chance. Few samples per client are fewer still without the held-out ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from engine.backends import batch_weight, mean_cross_entropy
from engine.channel import KEPT_BY_CLIENT
from engine.core.params import ClientParams, broadcast, clone, each, gather, row, scatter, squared_distance
from engine.core.registry import ALGORITHMS, Options
from engine.core.streams import key, numpy_stream, permutation_prefix
from engine.core.style import Style
from engine.federation.batches import Batch, BatchRequest, Cohort, make_plan
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.local import Live, for_each_client, local_sgd
from engine.training.roles import PersonalModels

_TIE = 1e-9  # affinities this close, relatively, are equal
_SMALL = 1e-9  # added to a smaller sum of c_n before division, as in the authors' code


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("epsilon_decay",)

    models: int = Field(
        5, ge=0, le=10_000, title="M", description="Models that a client asks for in a round; larger = more bytes."
    )
    epsilon: float = Field(
        0.3,
        ge=0,
        le=1,
        title="ε",
        description="Probability of asking for a random model instead of the one with the largest affinity; larger = "
        "more random choices.",
        json_schema_extra={"tune": [0.0, 1.0, "lin"]},
    )
    epsilon_decay: float = Field(
        0.05, ge=0, le=1, description="Decrease of epsilon in each round; larger = settles sooner."
    )
    val_share: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="Share of the training samples that are held out to measure models; 0 measures on all of them.",
        json_schema_extra={"tune": [0.1, 0.5, "lin"]},
    )


@dataclass(frozen=True)
class State:
    personal_params: ClientParams  # theta_i
    base_params: ClientParams  # b_i
    uploads: ClientParams  # the last upload of each client, which the server holds
    affinity: Float[Tensor, "N N"]  # A_in
    has_uploaded: Bool[Tensor, "N"]


@dataclass(frozen=True)
class Asked:
    """The clients whose uploads each participant tries; unused places hold an arbitrary client."""

    clients: Int[Tensor, "S C"]
    is_used: Bool[Tensor, "S C"]


@ALGORITHMS.register(
    "fedfomo",
    title="FedFomo",
    paper="Zhang et al., ICLR 2021",
    family="Regularized toward a shared model",
    style=Style(hue="teal", dash="dot", symbol="star"),
    averages=False,
)
@dataclass(frozen=True)
class FedFomo(PersonalModels):
    no_feedback: ClassVar[str] = KEPT_BY_CLIENT

    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.models == 0:
            task.note("fedfomo with models=0: clients ask for no models, each weighs only its own last one")
        none = torch.zeros(task.num_clients, dtype=task.dtype, device=task.device)
        affinity = task.for_clients({"affinity": none})["affinity"]
        theta, base, uploads = (task.initial_clients() for _ in range(3))
        return State(theta, base, uploads, affinity, none.bool())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        kept, measured = split(task, cohort.clients, self.hparams.val_share)
        own = kept.cohort_of(list(cohort.client_ids), cohort.round, cohort.stream)
        clients = own.clients
        known = state.has_uploaded.nonzero()[:, 0]
        affinity = state.affinity.index_select(0, clients)
        chosen = self._chosen(known.tolist(), own, affinity[:, known].double().cpu().numpy(), task)
        asked = _stacked(chosen, task.device)
        base, last = gather(state.base_params, clients), gather(state.personal_params, clients)
        gains = gains_of(measured, base, last, state.uploads, asked, own)
        start = moved(base, last, state.uploads, asked, gains)
        theta = local_sgd(kept, start, own)
        arrived = task.channel.deliver(theta.params, gather(state.uploads, clients), own, own.uniform)
        senders = clients[arrived.rows]
        total = gains.sum(1, keepdim=True).abs()
        shares = gains / (total + _SMALL * (total < _SMALL))
        affinity = affinity.scatter_add(1, torch.cat([clients[:, None], asked.clients], 1), shares)
        new = State(
            scatter(state.personal_params, theta.params, clients),
            scatter(state.base_params, start, clients),
            scatter(state.uploads, arrived.params, senders),
            state.affinity.index_copy(0, clients, affinity),
            state.has_uploaded.index_fill(0, senders, True),
        )
        bytes_down = int(self.bytes_down(state)[clients].sum())
        return new, Diagnostics(theta.loss, theta.gradient_evaluations, cohort=own, bytes_down=bytes_down)

    def _chosen(
        self, known: list[int], cohort: Cohort, affinity: Float[np.ndarray, "S K"], task: Task
    ) -> list[list[int]]:
        """The clients whose uploads each participant asks for; none in its first participation."""
        h = self.hparams
        chance = max(0.0, h.epsilon - h.epsilon_decay * (cohort.round - 1))
        chosen: list[list[int]] = []
        for client, values in zip(cohort.client_ids, affinity, strict=True):
            others = [k for k, n in enumerate(known) if n != client]
            is_first = len(others) == len(known)
            stream = numpy_stream(task.seed, "fomo", client, cohort.round)
            places = [] if is_first else choose(stream, values[others], h.models, chance)
            chosen.append([known[others[place]] for place in places])
        return chosen

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        one = row(state.personal_params, 0)
        return Shared(down=(one,) * self.hparams.models, up=(one,))

    def bytes_down(self, state: State) -> Int[Tensor, "N"]:
        """A client asks for models of others that have uploaded, and for none in its first participation."""
        others = int(state.has_uploaded.sum()) - 1
        return state.has_uploaded * (self.shared(state).bytes_up * min(self.hparams.models, others))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        kept, measured = split(task, newcomers.clients, self.hparams.val_share)
        own = kept.cohort_of(list(newcomers.client_ids), newcomers.round, newcomers.stream)
        known: list[int] = state.has_uploaded.nonzero()[:, 0].tolist()
        no_affinity = np.zeros(len(known))
        chosen = []
        for client in own.client_ids:
            stream = numpy_stream(task.seed, "fomo", client, own.round)
            chosen.append([known[k] for k in choose(stream, no_affinity, self.hparams.models, 1.0)])
        asked, base = _stacked(chosen, task.device), broadcast(task.initial_model(), own.size)
        gains = gains_of(measured, base, base, state.uploads, asked, own)
        start = moved(base, base, state.uploads, asked, gains)
        return Predictor.of_everyone(local_sgd(kept, start, own).params, own)


def split(task: Task, clients: Int[Tensor, "S"], val_share: float) -> tuple[Task, Task]:
    """Two tasks: on the samples that these clients train on, and on the samples that they measure models with.

    The latter are first in a permutation that is the same in every round; all samples, if there would be none.
    """
    data, ascending = task.data.train, clients.sort().values
    sizes = data.sizes[ascending]
    held = (val_share * sizes.double()).round().long().clamp(min=int(val_share > 0)).minimum(sizes - 1)
    largest = int(sizes.max())
    order = permutation_prefix(key(task.seed, "fomo split"), ascending, sizes, largest, largest)
    places = data.offsets[ascending][:, None] + order
    number = torch.arange(largest, device=task.device)
    is_sample, is_held = number < sizes[:, None], number < held[:, None]

    def on(chosen: Bool[Tensor, "S M"]) -> Task:
        counts = torch.zeros_like(data.sizes).index_copy(0, ascending, chosen.sum(1))
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return replace(task, data=replace(task.data, train=data.selected(places[chosen], offsets)))

    return on(is_sample & ~is_held), on(is_sample & (is_held | (held == 0)[:, None]))


def choose(stream: np.random.Generator, affinity: Float[np.ndarray, "K"], count: int, chance: float) -> list[int]:
    """``count`` places, or all. Each is a random one with this chance, else the remaining one of largest affinity."""
    remaining, chosen = list(range(len(affinity))), []
    for _ in range(min(count, len(remaining))):
        pool = remaining
        if stream.random() >= chance:
            values = affinity[remaining]
            largest = values.max()
            is_largest = largest - values <= _TIE * abs(largest)
            pool = [place for place, is_one in zip(remaining, is_largest, strict=True) if is_one]
        chosen.append(pool[stream.integers(len(pool))])
        remaining.remove(chosen[-1])
    return chosen


def _stacked(chosen: Sequence[Sequence[int]], device: torch.device) -> Asked:
    """Lists of clients as rows of one length."""
    width = max(map(len, chosen))
    ids = [[*clients, *[0] * (width - len(clients))] for clients in chosen]
    is_used = [[*[True] * len(clients), *[False] * (width - len(clients))] for clients in chosen]
    return Asked(torch.tensor(ids, device=device).long(), torch.tensor(is_used, device=device).bool())


def gains_of(
    task: Task, base: ClientParams, last: ClientParams, uploads: ClientParams, asked: Asked, cohort: Cohort
) -> Float[Tensor, "S tried"]:
    """c_n on the training data of ``task``: of a participant's ``last`` model [S, ...], and of those it asked for."""
    sizes, starts = [task.train_sizes[c] for c in cohort.client_ids], task.data.train.offsets[cohort.clients]
    once = make_plan(BatchRequest(sizes, starts, cohort.clients, [1] * cohort.size, "full", task.seed, "fomo", 0))

    def losses(params: ClientParams, batch: Batch) -> Float[Tensor, "A"]:
        return mean_cross_entropy(task.backend.logits(task.model, params, batch.x), batch.y, batch_weight(batch))

    def step(c: Live, batch: Batch) -> Tensor:
        before = losses(c.base, batch)

        def gain(theta: ClientParams) -> Float[Tensor, "A"]:
            distance = squared_distance(theta, c.base).sqrt()
            value = (before - losses(theta, batch)) / distance
            return value.where((distance > 0) & value.isfinite(), 0)

        c.gains[:, 0] = gain(c.last)
        for place in range(c.clients.shape[1]):
            value = gain(gather(uploads, c.clients[:, place]))
            c.gains[:, place + 1] = value.where(c.is_used[:, place], 0)
        return before

    start = torch.zeros(cohort.size, 1 + asked.clients.shape[1], dtype=task.dtype, device=task.device)
    fixed = {"base": base, "last": last, "clients": asked.clients, "is_used": asked.is_used}
    with torch.no_grad():
        gains: Tensor = for_each_client(task, once, {"gains": start}, step, fixed=fixed).gains
    return gains


def moved(
    base: ClientParams, last: ClientParams, uploads: ClientParams, asked: Asked, gains: Float[Tensor, "S tried"]
) -> ClientParams:
    """b_i + sum_n s_n (theta_n - b_i)."""
    positive = gains.clamp(min=0)
    total = positive.sum(1, keepdim=True)
    weights = positive / total.where(total > 0, 1)
    start = clone(base)
    for place in range(gains.shape[1]):
        theta = last if place == 0 else gather(uploads, asked.clients[:, place - 1])
        for n, p in start.items():
            p.add_(each(weights[:, place], p) * (theta[n] - base[n]))
    return start
