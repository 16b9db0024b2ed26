"""CFL: FedAvg that splits a cluster in two if its clients' updates disagree.

Sattler, Mueller, Samek. Clustered Federated Learning: Model-Agnostic Distributed Multi-Task Optimization under Privacy
Constraints. IEEE Transactions on Neural Networks and Learning Systems 2021. https://arxiv.org/abs/1910.01991.

    w_i     <- omega_k                                          k = k_i, then E steps of SGD on f_i
    Delta_i <- w_i - omega_k
    a_k     <- ||sum_i m_i / m_k Delta_i||                      over the participants in cluster k
    b_k     <- max_i ||Delta_i||
    where a_k < eps_1 and b_k > eps_2, after the warm-up:
        c_1, c_2 <- argmin_c max_ij cos(Delta_i, Delta_j)       i in c_1, j in c_2; each becomes a cluster
    omega_k <- sum_i m_i / m_k w_i

Idea: If FedAvg has converged but single clients still move, their objectives differ: the mean update is small and
some update is large. Such a cluster is split, so that the most similar pair of updates across the cut is as dissimilar
as possible.

When: clients may form groups, and it is not known whether they do or how many there are.

Sent: omega_k down; w_i up. Kept: nothing.

Cost: as FedAvg; the server compares all pairs of updates where it splits.

Newcomers: the cluster's model with the least loss on their training data, as it is.

Deviations: the best cut is found exactly, as in the paper: it is what single linkage finds. The authors' code takes
complete linkage. The paper's check of the cut against a noise level is omitted, as in that code; ``eps1``, ``eps2`` and
``warmup`` are its values. Only participants are compared: a cluster splits where more than two of its clients took
part. A non-participant joins the half whose new model has the lower loss on its training data; the paper lets
latecomers compare their update with those of both halves. With privacy of samples, where this loss would reveal their
data, non-participants stay in the half of the first participant.

Pitfalls: norms of updates grow with the learning rate and the local steps, so the thresholds fit one setting only: read
them off the two recorded curves. With small batches noise keeps the norm of the mean update up. A split is never
undone.

Diagnostics: clusters (of each client), mean_update_norm and max_update_norm (of each cluster before the round's splits;
missing where no client took part), ari (where the true contexts are known).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from engine.channel import Arrived
from engine.core.params import ClientParams, SharedParams, broadcast, gather, row, scatter, squared_distance
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.clustering import (
    cosine_similarity,
    least_loss,
    single_cluster,
    train_inside,
    updates_of,
)
from engine.training.evaluate import training_losses
from engine.training.kmeans import Contexts, agreement
from engine.training.roles import ClusterModels


class Hparams(Options):
    eps1: float = Field(
        0.4,
        ge=0,
        le=1e6,
        title="ε₁",
        description="A cluster may split where its mean update is shorter; larger = earlier.",
        json_schema_extra={"tune": (0.01, 1, "log")},
    )
    eps2: float = Field(
        1.6,
        ge=0,
        le=1e6,
        title="ε₂",
        description="A cluster splits only where some update is longer; larger = more global.",
        json_schema_extra={"tune": (0.05, 5, "log")},
    )
    warmup: int = Field(
        20,
        ge=0,
        le=1_000_000,
        description="Number of first rounds without splits.",
        json_schema_extra={"tune": (1, "rounds/2", "int")},
    )


@dataclass(frozen=True)
class State:
    contexts: Contexts  # omega_k, and the cluster of every client


@dataclass(frozen=True)
class _Norms:
    """Norms of the updates in each cluster; NaN where no client took part."""

    mean: Float[Tensor, "K"]
    largest: Float[Tensor, "K"]
    participants: Int[Tensor, "K"]


@ALGORITHMS.register(
    "cfl",
    title="CFL",
    paper="Sattler et al., TNNLS 2021",
    family="Clustered",
    style=Style(hue="rust", dash="dot", symbol="star-triangle-up"),
    privacy=("sample",),
    at_evaluation=(),
)
@dataclass(frozen=True)
class Cfl(ClusterModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if h.eps1 == 0 or h.warmup >= task.training.rounds:
            task.note(
                f"cfl with eps1={h.eps1:g}, warmup={h.warmup} never splits in {task.training.rounds} rounds: "
                "this is fedavg"
            )
        if task.cohort(1).size <= 2:
            task.note("cfl never splits a cluster of which at most two clients take part; raise participation")
        return State(single_cluster(task))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        h, old = self.hparams, state.contexts
        trained, arrived = train_inside(task, old, cohort)
        clients = cohort.clients[arrived.rows]
        labels, updates = old.assigned[clients], updates_of(arrived, old, clients)
        new = Contexts(task.channel.combine_inside(arrived, old.models, labels, cohort), old.assigned)
        norms = _norms(old.models, new.models, updates, labels)
        if cohort.round > h.warmup:
            may_split = (norms.mean < h.eps1) & (norms.largest > h.eps2) & (norms.participants > 2)
            for k in may_split.nonzero()[:, 0].tolist():
                new = _split(new, k, row(old.models, k), arrived, updates, cohort, task)
        values = agreement(new.assigned, task.data.contexts)
        values |= {"mean_update_norm": norms.mean, "max_update_norm": norms.largest}
        return State(new), Diagnostics(trained.loss, trained.gradient_evaluations, values, new.assigned)


def _norms(old: ClientParams, new: ClientParams, updates: ClientParams, labels: Int[Tensor, "S"]) -> _Norms:
    """``new`` are the averaged models: they moved by the mean update."""
    count = len(next(iter(old.values())))
    zero = {n: torch.zeros_like(p[:1]) for n, p in updates.items()}
    lengths = squared_distance(updates, zero).sqrt()
    largest = lengths.new_full((count,), torch.nan).scatter_reduce(0, labels, lengths, "amax", include_self=False)
    participants = torch.bincount(labels, minlength=count)
    mean = squared_distance(new, old).sqrt().where(participants > 0, torch.nan)
    return _Norms(mean, largest, participants)


def _split(
    contexts: Contexts,
    k: int,
    received: SharedParams,
    arrived: Arrived,
    updates: ClientParams,
    cohort: Cohort,
    task: Task,
) -> Contexts:
    """Split cluster k in two: the half of its first participant keeps the number k, the other gets the next one.

    ``received``: the model from which its clients trained.
    """
    K, clients = len(next(iter(contexts.models.values()))), cohort.clients[arrived.rows]
    labels = contexts.assigned[clients]
    rows = (labels == k).nonzero()[:, 0]
    rows = rows[clients[rows].argsort()]
    labels[rows[bipartition(gather(updates, rows))]] = K
    both = torch.tensor([k, K], device=clients.device)
    start = gather(contexts.models, torch.tensor([*range(K), k], device=clients.device))
    start = scatter(start, broadcast(received, 2), both)
    models = task.channel.combine_inside(arrived, start, labels, cohort, only=(k, K))
    assigned = contexts.assigned.clone()
    assigned[clients] = labels
    sat_out = contexts.assigned == k
    sat_out[clients] = False
    if bool(sat_out.any()) and task.draws_samples:
        task.note(
            "cfl with privacy of samples: clients that sat out a split stay in the half of its first participant, "
            "since their losses would reveal their data"
        )
    elif bool(sat_out.any()):
        losses = training_losses(task, gather(models, both))
        assigned[sat_out & (least_loss(losses) == 1)] = K
    return Contexts(models, assigned)


def bipartition(updates: ClientParams) -> Bool[Tensor, "members"]:
    """Cuts the clients in two, with the smallest largest similarity across the cut; marks the part without the first.

    Single linkage finds it: it merges the most similar parts until two are left.
    """
    from sklearn.cluster import AgglomerativeClustering  # slow to import

    fitted = AgglomerativeClustering(2, metric="precomputed", linkage="single").fit(1 - cosine_similarity(updates))
    return torch.from_numpy(fitted.labels_ != fitted.labels_[0]).to(next(iter(updates.values())).device)
