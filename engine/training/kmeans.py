"""Contexts of CGPFL: k-means over the clients' models, labels matched between rounds, and transitions."""

import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from engine.channel import Arrived
from engine.core.params import ClientParams, flatten, gather, lerp, row, scatter, weighted_mean
from engine.federation.batches import Cohort
from engine.task import Task
from engine.training.similarity import squared_distances

_EQUAL = 1e-7  # models closer than this share of the largest distance from the center are equal up to rounding
_FAR = 1e200  # in place of distances of models that are not finite


@dataclass(frozen=True)
class Contexts:
    models: ClientParams  # [K, ...]
    assigned: Int[Tensor, "N"]

    @cached_property
    def of_clients(self) -> ClientParams:
        """The model of each client's context, [N, ...]; one object, so that it is evaluated once."""
        return gather(self.models, self.assigned)


@dataclass(frozen=True)
class Clustering:
    """One k-means over the participants."""

    labels: np.ndarray  # [S], 0..k-1, every label used
    inertia: float
    iterations: int
    seconds: float
    points: np.ndarray = field(repr=False)  # [S, <=S] coordinates with the models' distances

    def cost(self, weights: np.ndarray) -> float:
        """sum_i weights_i ||omega~_i - nearest centroid||^2, centroids unweighted."""
        centroids = (self.points[self.labels == k].mean(0) for k in range(self.labels.max() + 1))
        distances = np.stack([np.square(self.points - centroid).sum(1) for centroid in centroids])
        return float((weights * distances.min(0)).sum())

    def diagnostics(
        self, before: Int[Tensor, "N"], after: Int[Tensor, "N"], truth: np.ndarray | None
    ) -> dict[str, float | Tensor]:
        """The diagnostics of CGPFL in each round."""
        count, gaps = len(self.points), _gaps(self.points)
        values: dict[str, float | Tensor] = {
            "inertia": self.inertia,
            "kmeans_iterations": float(self.iterations),
            "kmeans_seconds": self.seconds,
            "model_distance": float(gaps.sum() / (count * (count - 1))) if count > 1 else 0.0,
            "Q": transitions(before, after),
        }
        return values | agreement(after, truth)


def coordinates(models: ClientParams) -> Float[np.ndarray, "S R"]:
    """Points in at most S dimensions with the pairwise distances of the flattened models, so k-means sees the same.

    S models span at most S dimensions: the eigenvectors of their centered Gram matrix are an isometry.
    """
    matrix = flatten(models).double()
    centered = matrix - matrix.mean(0)
    gram = centered @ centered.T
    # Not finite if the run diverges: use one point and so one cluster; the run ends in this round.
    if not bool(gram.isfinite().all()):
        return np.zeros((len(matrix), 1))
    values, vectors = torch.linalg.eigh(gram)
    noise = len(matrix) * torch.finfo(values.dtype).eps * values.max()
    points = (vectors * values.where(values > noise, 0.0).sqrt()).cpu().numpy()
    return points[_first_of_its_kind(points)]


def _first_of_its_kind(points: Float[np.ndarray, "S R"]) -> np.ndarray:
    """[S] the first point that is equal up to rounding, so that equal models have equal coordinates."""
    farthest = np.sqrt(np.square(points).sum(1).max(initial=0.0))
    return np.argmax(_gaps(points) <= _EQUAL * farthest, axis=1)


def _gaps(points: Float[np.ndarray, "S R"]) -> Float[np.ndarray, "S S"]:
    """The distances of all pairs; those of equal points are zero up to rounding, with themselves exactly."""
    models = {"points": torch.from_numpy(points)}
    gaps = squared_distances(models, models).sqrt_().fill_diagonal_(0.0)
    return gaps.numpy()


def cluster(points: Float[np.ndarray, "S R"], k: int, stream: int) -> Clustering:
    """k-means (k-means++, 10 starts) on the points, into at most as many clusters as there are distinct ones."""
    started = time.perf_counter()
    k = min(k, len(np.unique(points, axis=0)))
    if k == 1:
        inertia = float(np.square(points - points.mean(0)).sum())
        return Clustering(np.zeros(len(points), int), inertia, 0, time.perf_counter() - started, points)
    from sklearn.cluster import KMeans  # slow to import

    fitted = KMeans(k, init="k-means++", n_init=10, random_state=stream % 2**32).fit(points)
    _, labels = np.unique(fitted.labels_, return_inverse=True)
    return Clustering(labels, float(fitted.inertia_), int(fitted.n_iter_), time.perf_counter() - started, points)


def recluster(
    old: Contexts, arrived: Arrived, cohort: Cohort, task: Task, *, k: int, alpha: float, stream: int
) -> tuple[Contexts, Clustering]:
    """Cluster the models that arrived and move each context toward its mean: lines 13-14 of Algorithm 1.

    At most as many clusters as there are distinct models; the other contexts keep their model.
    """
    found = cluster(coordinates(arrived.params), k, stream)
    return move_contexts(old, arrived, cohort, task, found.labels, alpha), found


def move_contexts(
    old: Contexts, arrived: Arrived, cohort: Cohort, task: Task, labels: np.ndarray, alpha: float
) -> Contexts:
    """omega_k <- omega_k - alpha (omega_k - uniform mean over context k's participants), labels matched to the old.

    A mean is measured from the mean of the models that its members received.
    """
    clients = cohort.clients[arrived.rows]
    received = F.one_hot(old.assigned[clients], len(next(iter(old.models.values())))).to(arrived.weights.dtype)
    members = [torch.from_numpy(np.flatnonzero(labels == k)).to(clients.device) for k in range(labels.max() + 1)]
    means = []
    for rows in members:
        part = arrived.part(rows, arrived.weights.new_full((len(rows),), 1 / len(rows)))
        means.append(task.channel.combine(part, weighted_mean(old.models, received[rows].mean(0)), cohort))
    context_of = match(means, old.models)
    new, assigned = old.models, old.assigned.clone()
    for mean, rows, context in zip(means, members, context_of, strict=True):
        moved = lerp(row(old.models, context), mean, alpha)
        new = scatter(new, {n: p[None] for n, p in moved.items()}, torch.tensor([context], device=assigned.device))
        assigned[clients[rows]] = context
    return Contexts(new, assigned)


def match(means: list[dict[str, Tensor]], old: ClientParams) -> list[int]:
    """The old context that each new mean continues: least total squared distance, one to one."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    pairs = [[(old[n][j] - m[n]).double().square().sum() for n in m] for m in means for j in _contexts(old)]
    cost = torch.stack([torch.stack(parts).sum() for parts in pairs]).view(len(means), -1).cpu().numpy()
    _, columns = linear_sum_assignment(np.nan_to_num(cost, nan=_FAR, posinf=_FAR))
    return [int(c) for c in columns]


def transitions(before: Int[Tensor, "N"], after: Int[Tensor, "N"]) -> Float[Tensor, "J K"]:
    """Q_jk = |C_j and C_k'| / |C_k'|: where the members of each new context were before; columns of used ones sum to 1.

    Both versions of the paper say that rows sum to 1 too; they do only if the sizes do not change.
    """
    size = int(torch.maximum(before.max(), after.max())) + 1
    counts = torch.zeros(size, size, dtype=torch.float64, device=before.device)
    counts.index_put_((before, after), counts.new_ones(len(before)), accumulate=True)
    return (counts / counts.sum(0).clamp(min=1)).float()


def agreement(assigned: Int[Tensor, "N"], truth: np.ndarray | None) -> dict[str, float | Tensor]:
    """Adjusted Rand index against the true contexts, where they are known."""
    if truth is None:
        return {}
    from sklearn.metrics import adjusted_rand_score  # slow to import

    return {"ari": float(adjusted_rand_score(truth, assigned.cpu().numpy()))}


def _contexts(models: ClientParams) -> range:
    return range(len(next(iter(models.values()))))
