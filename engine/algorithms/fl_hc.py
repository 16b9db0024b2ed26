"""FL+HC: FedAvg for some rounds, then one hierarchical clustering of the clients, then FedAvg inside each cluster.

Briggs, Fan, Andras. Federated Learning with Hierarchical Clustering of Local Updates to Improve Training on Non-IID
Data. IJCNN 2020. https://arxiv.org/abs/2004.11791, Algorithm 1.

    w_i      <- omega_k                                         k = k_i, then E steps of SGD on f_i
    in round at_round, all clients:
        Delta_i <- w_i - omega_1
        (k_1, ..., k_N) <- cluster(Delta_1, ..., Delta_N)       agglomerative
    omega_k  <- sum_i m_i / m_k w_i                             over the participants in cluster k

Idea: After a few rounds of FedAvg the update of a client reflects its data. Clients with similar updates are grouped
once, and from then on each cluster trains its own model.

When: clients form clear groups that show after a few rounds.

Sent: omega_k down; w_i up. Kept: nothing.

Cost: as FedAvg, but all clients train in round ``at_round``, where the server compares all pairs of updates.

Newcomers: the cluster's model with the least loss on their training data, as it is.

Deviations: the round that clusters also averages, inside the new clusters. Afterwards the participants are drawn from
all clients as for every method, where the paper draws a share of each cluster: a cluster without participants keeps its
model. Clusters are numbered by their first client. A client whose upload is lost in ``at_round`` joins the cluster with
the least loss on its training data; with privacy of samples, where this loss would reveal its data, the first one.

Pitfalls: clusters are found once, from one noisy update, and never again: where ``at_round`` is too early they group by
the start, not by the data. A ``distance_threshold`` depends on the learning rate, the local steps and the size of the
model: read it off merge_distances.

Diagnostics: clusters (of each client), merge_distances (of the N - 1 merges, in the round that clusters), ari (where
the true contexts are known).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from engine.core.params import ClientParams, flatten, gather, in_client_order
from engine.core.registry import ALGORITHMS, Count, NonNegative, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.clustering import cosine_similarity, least_loss, single_cluster, train_inside, updates_of
from engine.training.evaluate import training_losses
from engine.training.kmeans import Contexts, agreement, coordinates
from engine.training.roles import ClusterModels


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("linkage", "metric")

    at_round: int = Field(
        10,
        ge=1,
        le=1_000_000,
        title="n",
        description="The round in which all clients train and are clustered.",
        json_schema_extra={"tune": (1, "rounds/2", "int")},
    )
    n_clusters: Count | None = Field(
        None,
        title="K",
        description="Number of clusters (4 if no threshold is set either); more = more personal.",
        json_schema_extra={"tune": (2, "clients/2", "intlog")},
    )
    distance_threshold: NonNegative | None = Field(
        None, description="Instead of a number of clusters: merge only clusters closer than this; larger = more global."
    )
    linkage: Literal["ward", "complete", "average", "single"] = Field(
        "ward", description="How far apart two clusters are: ward, or the largest, mean or least distance of a pair."
    )
    metric: Literal["euclidean", "manhattan", "cosine"] = Field(
        "euclidean", description="Distance of two updates; ward takes euclidean alone."
    )

    @model_validator(mode="before")
    @classmethod
    def _number_or_threshold(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping):
            if raw.get("n_clusters") is not None and raw.get("distance_threshold") is not None:
                raise ValueError("n_clusters and distance_threshold are mutually exclusive; set only one")
            if raw.get("n_clusters") is None and raw.get("distance_threshold") is None:
                return {**raw, "n_clusters": 4}
        return raw

    @property
    def untuned(self) -> frozenset[str]:
        return frozenset() if self.distance_threshold is None else frozenset({"n_clusters"})

    @model_validator(mode="after")
    def _ward_is_euclidean(self) -> Self:
        if self.linkage == "ward" and self.metric != "euclidean":
            raise ValueError(f"linkage ward needs metric euclidean, not {self.metric}; use linkage: average")
        return self


@dataclass(frozen=True)
class State:
    contexts: Contexts  # omega_k, and the cluster of every client


@ALGORITHMS.register(
    "fl_hc",
    title="FL+HC",
    paper="Briggs et al., IJCNN 2020",
    family="Clustered",
    style=Style(hue="olive", dash="dash", symbol="hourglass"),
    privacy=("sample",),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FlHc(ClusterModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if h.at_round > task.training.rounds:
            task.note(f"fl_hc with at_round={h.at_round}: there are {task.training.rounds} rounds, so this is fedavg")
        if h.n_clusters == 1:
            task.note("fl_hc with n_clusters=1: there is one cluster, this is fedavg")
        if (h.n_clusters or 0) > task.num_clients:
            task.note(f"fl_hc with n_clusters={h.n_clusters}: there are {task.num_clients} clients, one a cluster")
        return State(single_cluster(task))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        old, is_clustering = state.contexts, cohort.round == self.hparams.at_round
        values: dict[str, float | Tensor] = {}
        if is_clustering:
            cohort = task.cohort_of(list(range(task.num_clients)), cohort.round)
        trained, arrived = train_inside(task, old, cohort)
        if is_clustering and not arrived.size:
            task.note(f"fl_hc: no upload arrived in round {cohort.round}, so all clients stay in one cluster")
        clients, start, assigned = cohort.clients[arrived.rows], old.models, old.assigned
        if is_clustering and arrived.size:
            found, heights = self._cluster(in_client_order(updates_of(arrived, old, clients), clients))
            start = gather(start, torch.zeros(int(found.max()) + 1, dtype=torch.int64, device=found.device))
            assigned = assigned.index_copy(0, clients.sort().values, found)
            values["merge_distances"] = heights
        models = task.channel.combine_inside(arrived, start, assigned[clients], cohort)
        if is_clustering and 0 < arrived.size < task.num_clients:
            if task.draws_samples:
                task.note(
                    f"fl_hc with privacy of samples: clients whose upload was lost in round {cohort.round} are in "
                    "cluster 0, since their losses would reveal their data"
                )
            else:
                is_lost = torch.ones_like(assigned, dtype=torch.bool).index_fill(0, clients, False)
                assigned = least_loss(training_losses(task, models)).where(is_lost, assigned)
        new = Contexts(models, assigned)
        values |= agreement(assigned, task.data.contexts)
        return State(new), Diagnostics(trained.loss, trained.gradient_evaluations, values, assigned, cohort)

    def _cluster(self, updates: ClientParams) -> tuple[Int[Tensor, "N"], Float[Tensor, "merges"]]:
        """The cluster of each client, numbered by their first clients; the distances of the N - 1 merges, ascending."""
        from sklearn.cluster import AgglomerativeClustering  # slow to import

        h, device = self.hparams, next(iter(updates.values())).device
        points = _distances(updates, h.metric) if h.metric != "euclidean" else coordinates(updates)
        if len(points) == 1:
            return torch.zeros(1, dtype=torch.int64, device=device), torch.zeros(0, dtype=torch.float64)
        fitted = AgglomerativeClustering(
            n_clusters=min(h.n_clusters, len(points)) if h.n_clusters else None,
            distance_threshold=h.distance_threshold,
            linkage=h.linkage,
            metric="euclidean" if h.metric == "euclidean" else "precomputed",
            compute_distances=True,
        ).fit(points)
        _, first, labels = np.unique(fitted.labels_, return_index=True, return_inverse=True)
        by_first_client = first.argsort().argsort()[labels]
        return torch.from_numpy(by_first_client).to(device), torch.from_numpy(fitted.distances_)


def _distances(updates: ClientParams, metric: str) -> Float[np.ndarray, "N N"]:
    """Distances of all pairs of updates, manhattan or cosine."""
    if metric == "cosine":
        return 1 - cosine_similarity(updates)
    matrix = flatten(updates).double()
    return torch.cdist(matrix, matrix, p=1).nan_to_num().cpu().numpy()
