"""pFedFDA: heads from a Gaussian model of the features, with the client's statistics and the shared ones mixed.

Mclaughlin, Su. Personalized Federated Learning via Feature Distribution Adaptation. NeurIPS 2024.
https://arxiv.org/abs/2411.00329, Algorithm 1.

    LDA(M, Z, pi):  Z' <- (1 - epsilon) Z + epsilon tr(Z) / F I
                    A  <- M Z'^-1,  bias <- log pi - diag(A M^T) / 2        logits A f + bias

    pi_ic <- (m_ic / m_i + epsilon) / (1 + C epsilon)           m_ic training samples of class c
    h_i   <- LDA(M, Z, pi_i), phi_i <- phi
    E times, for a batch B:
        phi_i <- phi_i - lr grad_phi f_i(phi_i, h_i; B)         h_i fixed
    M_i   <- class means of all features phi_i(x);  the row of M where m_ic <= 2
    Z_i   <- sum_j (f_j - M_{i,y_j}) (f_j - M_{i,y_j})^T / max(1, m_i - 1) + ridge I
    phi   <- sum_i p_i phi_i                                    over the cohort, p_i = m_i / m
    M     <- sum_i p_i [a_i M_i + (1 - a_i) M]
    Z     <- sum_i p_i [b_i Z_i + (1 - b_i) Z]

Idea: A head that is trained on few samples overfits. Here nothing of it is trained: if the features of each class are
Gaussian with a common covariance, the best head follows from class means, covariance and class frequencies. A client
mixes its own estimates with those of all clients, as far as that helps on samples that it did not estimate them from.

When: samples are too few to train heads, and a class has one kind of features. Needs: a body under a linear head with a
bias (dnn, cnn).

Sent: phi, M and the lower triangle of Z, both ways. Kept: nothing.

Cost: one local training of the body a round, and a forward pass over the training data; bytes of FedAvg's body and of C
F + F(F+1)/2 numbers. The search for a_i and b_i takes 22 Cholesky decompositions of F x F in double precision and 121
losses of the training data for each client: with 128 features a round takes three to four times FedAvg's. Each
evaluation does the same for all clients.

Newcomers: the server's body, with a head from their own statistics under it, mixed like all others'.

Deviations: a_i and b_i are the best pair on a grid of steps of 0.1 (beta="double"), or one value for both on a grid of
0.05 (beta="single"): least sum of the mean cross-entropies of two folds, each predicted with the statistics of the
other. Sums within 1e-6 of the least count as equal, and the smallest b_i, then a_i, is taken. The authors search from
0.5 by ten iterations of L-BFGS. Samples of a class alternate between the folds; a class with one sample is left out,
and without any samples both are 0. Statistics are those of the final body, not of passing batches. Clients are
evaluated with statistics and heads made anew under the averaged body. If Z' is not positive definite, A is 0.

Pitfalls: the published code adds 1e-4 to every entry of Z_i, and a whole identity instead of 1e-4 I; the published
numbers contain it, hence ridge=1. FL-bench never sends the statistics back. PFLlib's client of a similar name is
another method.

Diagnostics: own_means and own_covariance, mean a_i and b_i over the cohort.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from scipy.linalg.lapack import dposv
from torch import Tensor
from torch.nn import functional as F

from engine.core.errors import Unsupported
from engine.core.params import ClientParams, SharedParams, broadcast
from engine.core.registry import ALGORITHMS, Options
from engine.core.streams import key, permutation_prefix, torch_stream
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import part, require_body, require_linear_head
from engine.training.features import Features, shared_features, stacked_features
from engine.training.local import local_sgd
from engine.training.roles import SplitModels

MEANS, COVARIANCE = "means", "covariance"  # M and the lower triangle of Z, beside the body's names
STEPS = {"double": 10, "single": 20}  # of the grids from 0 to 1
TIE = 1e-6
FEW = 2  # with at most this many samples, the mean of a class is the shared one
WIDE = 1024  # with more features a note states the memory


class Hparams(Options):
    beta: Annotated[float, Field(ge=0, le=1)] | Literal["double", "single"] = Field(
        "double",
        title="β",
        description="Share of a client's own statistics; larger = more personal. Found by cross-validation, for means "
        "and covariance apart (double) or together (single); a number is fixed.",
    )
    ridge: float = Field(
        1.0,
        ge=0,
        le=1e6,
        description="Added to the diagonal of each client's covariance; larger = smoother heads.",
        json_schema_extra={"tune": [0.001, 10.0, "log"]},
    )
    epsilon: float = Field(
        1e-4,
        gt=0,
        le=1,
        title="ε",
        description="Share of a multiple of the identity in the covariance, and what is added to class frequencies; "
        "larger = smoother.",
        json_schema_extra={"tune": [1e-6, 0.1, "log"]},
    )


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # phi, M and the lower triangle of Z


@ALGORITHMS.register(
    "pfedfda",
    title="pFedFDA",
    paper="Mclaughlin, Su, NeurIPS 2024",
    family="Split models",
    style=Style(hue="rust", dash="dashdot", symbol="circle"),
)
@dataclass(frozen=True)
class PFedFda(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "pfedfda")
        require_linear_head(task, "pfedfda")
        if len(task.model.head) != 2:
            raise Unsupported("pfedfda needs a head with a bias, for the class frequencies; use model: dnn or cnn")
        width = task.feature_width
        if width > WIDE:
            size = width**2 * 8 / 2**20
            task.note(
                f"pfedfda: with {width} features a covariance takes {size:.0f} MiB, of which each client needs several "
                "at a time, and its decompositions dominate; fewer features are cheaper"
            )
        drawn = torch.rand(task.data.num_classes, width, generator=torch_stream(task.seed, "fda means"))
        start = {MEANS: drawn, COVARIANCE: _triangle(torch.eye(width))}
        body = part(task.initial_model(), task.model.body)
        return State(body | {n: p.to(task.device, task.dtype) for n, p in start.items()})

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        received = Statistics.of(state.shared_params)
        heads = [self._head(received, log_prior) for log_prior in self._log_priors(task, cohort.clients)]
        start = broadcast(part(state.shared_params, task.model.body), cohort.size) | _stacked(heads, task)
        trained = local_sgd(task, start, cohort, trained=task.model.body)
        bodies = part(trained.params, task.model.body)
        features = stacked_features(task, bodies, task.data.train, cohort.clients)
        mixed = list(self._mixed(features, cohort.clients, received, task))
        sent = _stacked([{MEANS: m.means, COVARIANCE: _triangle(m.covariance)} for m, _ in mixed], task)
        own_means, own_covariance = (sum(shares) / cohort.size for shares in zip(*(b for _, b in mixed), strict=True))
        diagnostics = {"own_means": own_means, "own_covariance": own_covariance}
        new = task.channel.aggregate(bodies | sent, state.shared_params, cohort, cohort.weights)
        return State(new), Diagnostics(trained.loss, trained.gradient_evaluations, diagnostics)

    def personalized(self, state: State, task: Task) -> Predictor:
        everyone = torch.arange(task.num_clients, device=task.device) if task.evaluated is None else task.evaluated
        body, shared = part(state.shared_params, task.model.body), Statistics.of(state.shared_params)
        features = shared_features(task, body, task.data.train, everyone)
        priors = self._log_priors(task, everyone)
        mixed = self._mixed(features, everyone, shared, task)
        heads = [self._head(own, log_prior) for (own, _), log_prior in zip(mixed, priors, strict=True)]
        params = broadcast(body, len(everyone)) | _stacked(heads, task)
        return Predictor(params, is_per_client=True, clients=None if task.evaluated is None else everyone)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        return self.personalized(state, task)

    def _log_priors(self, task: Task, clients: Int[Tensor, "S"]) -> Float[Tensor, "S C"]:
        """log pi_i."""
        counts = task.data.class_counts[clients].double()
        shares = counts / counts.sum(1, keepdim=True) + self.hparams.epsilon
        return (shares / shares.sum(1, keepdim=True)).log()

    def _head(self, own: "Statistics", log_prior: Float[Tensor, "C"]) -> SharedParams:
        """LDA(M, Z, pi)."""
        weight = coefficients(own.means, own.covariance, self.hparams.epsilon)
        return {"head.weight": weight, "head.bias": log_prior - (weight * own.means).sum(-1) / 2}

    def _mixed(
        self, features: Features, clients: Int[Tensor, "S"], shared: "Statistics", task: Task
    ) -> Iterator[tuple["Statistics", tuple[float, float]]]:
        """Each client's statistics, mixed with the shared ones, and its a and b."""
        sizes = features.sizes
        stream, largest = key(task.seed, "fda folds"), int(sizes.max())
        orders = permutation_prefix(stream, clients, sizes, largest, largest)
        parts = zip(features.values.split(sizes.tolist()), features.labels.split(sizes.tolist()), strict=True)
        for (values, labels), order, log_prior in zip(parts, orders, self._log_priors(task, clients), strict=True):
            task.tick()
            whole = Features(values.double(), labels, torch.zeros_like(labels), 1, features.num_classes)
            (own,) = statistics_of(whole, shared, self.hparams.ridge)
            if isinstance(self.hparams.beta, str):
                shares = self._best_shares(folds_of(whole, order[: len(labels)]), shared, log_prior, task.dtype)
            else:
                shares = self.hparams.beta, self.hparams.beta
            yield own.mixed(shared, *shares), shares

    def _best_shares(
        self, folds: Features, shared: "Statistics", log_prior: Float[Tensor, "C"], dtype: torch.dtype
    ) -> tuple[float, float]:
        """(a, b) with the least sum of the two folds' losses."""
        beta = str(self.hparams.beta)
        grid = torch.linspace(0, 1, STEPS[beta] + 1, dtype=torch.float64, device=log_prior.device)
        if not len(folds.labels):
            return 0.0, 0.0
        of_means = grid.expand(len(grid), -1) if beta == "double" else grid[:, None]  # a, for each b
        losses = torch.zeros_like(of_means)
        values, labels = (rows.split(folds.sizes.tolist()) for rows in (folds.values, folds.labels))
        for fold, own in enumerate(statistics_of(folds, shared, self.hparams.ridge)):
            losses += self._losses(values[1 - fold], labels[1 - fold], own, shared, of_means, grid, log_prior, dtype)
        losses = losses.nan_to_num(nan=torch.inf)
        best = int((losses <= losses.min() * (1 + TIE)).flatten().int().argmax())
        row = best // losses.shape[1]
        return float(of_means.flatten()[best]), float(grid[row])

    def _losses(
        self,
        values: Float[Tensor, "M F"],
        labels: Int[Tensor, "M"],
        own: "Statistics",
        shared: "Statistics",
        a: Float[Tensor, "B G"],
        b: Float[Tensor, "B"],
        log_prior: Float[Tensor, "C"],
        dtype: torch.dtype,
    ) -> Float[Tensor, "B G"]:
        """The mean cross-entropy of each mixture of covariances with the mixtures ``a`` of means.

        The coefficients of a mixture of means are the mixture of the coefficients, so one decomposition serves a row of
        ``a``. Samples are the last axis, along which the processor computes several at a time. Losses do not depend on
        the origin of the features; at the samples' mean, logits are small and can be rounded to ``dtype``.
        """
        center = values.mean(0)
        both = torch.stack([own.means, shared.means]) - center
        start, end = (smoothed(of.covariance, self.hparams.epsilon) for of in (shared, own))
        weights = torch.stack([_solved(torch.lerp(start, end, share), both.flatten(0, 1)) for share in b.tolist()])
        logits = (weights.flatten(0, 1) @ (values - center).T).view(len(b), *both.shape[:2], -1).to(dtype)
        weights = weights.view(len(b), *both.shape)
        of_both = torch.stack([a, 1 - a], -1)
        products = (weights[:, :, None] * both).sum(-1)
        bias = (log_prior - torch.einsum("bgi,bijc,bgj->bgc", of_both, products, of_both) / 2).to(dtype)
        a, target = a.to(dtype), labels.expand(a.shape[1], 1, -1)
        found = logits.new_empty(*a.shape, len(labels))
        for row, (of_own, of_shared) in enumerate(logits):
            mixed = torch.lerp(of_shared, of_own, a[row, :, None, None]).add_(bias[row, ..., None])
            found[row] = mixed.log_softmax(1).gather(1, target)[:, 0]
        return -found.mean(-1, dtype=torch.float64)


@dataclass(frozen=True)
class Statistics:
    """Class means and covariance of features, computed in double precision."""

    means: Float[Tensor, "C F"]
    covariance: Float[Tensor, "F F"]

    @classmethod
    def of(cls, shared_params: SharedParams) -> "Statistics":
        """M and Z."""
        means, triangle = shared_params[MEANS].double(), shared_params[COVARIANCE].double()
        width = means.shape[1]
        rows, columns = torch.tril_indices(width, width, device=means.device)
        square = means.new_zeros(width, width)
        square[rows, columns] = triangle
        square[columns, rows] = triangle
        return cls(means, square)

    def mixed(self, shared: "Statistics", a: float, b: float) -> "Statistics":
        """These statistics mixed with the shared ones: the means have the weight a, the covariance has b."""
        means = torch.lerp(shared.means, self.means, a)
        return Statistics(means, torch.lerp(shared.covariance, self.covariance, b))


def coefficients(means: Float[Tensor, "K F"], covariance: Float[Tensor, "F F"], epsilon: float) -> Float[Tensor, "K F"]:
    """M Z'^-1; zeros if Z' is not positive definite."""
    return _solved(smoothed(covariance, epsilon), means)


def smoothed(covariance: Float[Tensor, "F F"], epsilon: float) -> Float[Tensor, "F F"]:
    """Z' = (1 - epsilon) Z + epsilon tr(Z) / F I."""
    smooth = (1 - epsilon) * covariance
    smooth.diagonal().add_(epsilon / len(covariance) * covariance.trace())
    return smooth


def _solved(smooth: Float[Tensor, "F F"], means: Float[Tensor, "K F"]) -> Float[Tensor, "K F"]:
    """M Z'^-1; zeros if Z' is not positive definite. Overwrites ``smooth``."""
    return solved_by_scipy(smooth, means) if smooth.device.type == "cpu" else solved_by_torch(smooth, means)


def solved_by_scipy(smooth: Float[Tensor, "F F"], means: Float[Tensor, "K F"]) -> Float[Tensor, "K F"]:
    """By LAPACK. PyTorch also clears the other triangle of the factor, which takes as long as the factor on a CPU."""
    factor, solved, failed = dposv(smooth.numpy().T, means.numpy().T, overwrite_a=True)
    is_solved = not failed and isfinite(factor[-1, -1])  # OpenBLAS reports no failure for NaN, which reaches this entry
    return torch.from_numpy(solved.T) if is_solved else torch.zeros_like(means)


def solved_by_torch(smooth: Float[Tensor, "F F"], means: Float[Tensor, "K F"]) -> Float[Tensor, "K F"]:
    """On any device, without reading anything back from it."""
    factor, failed = torch.linalg.cholesky_ex(smooth)
    return torch.where(failed == 0, torch.cholesky_solve(means.T, factor).T, 0.0)


def folds_of(features: Features, order: Int[Tensor, "M"]) -> Features:
    """Two folds of one client's samples: each class alternates in ``order``; classes with one sample are left out."""
    members = F.one_hot(features.labels[order], features.num_classes)
    number = (members.cumsum(0) * members).sum(1) - 1  # of a sample in its class
    is_used = features.class_counts[0][features.labels[order]] > 1
    halves = [order[is_used & (number % 2 == fold)] for fold in (0, 1)]
    rows = torch.cat(halves)
    owner = torch.cat([torch.full_like(half, fold) for fold, half in enumerate(halves)])
    return Features(features.values[rows], features.labels[rows], owner, 2, features.num_classes)


def statistics_of(features: Features, shared: Statistics, ridge: float) -> list[Statistics]:
    """M_i and Z_i of each client."""
    has_many = (features.class_counts > FEW)[..., None]
    means = torch.where(has_many, features.class_means, shared.means)
    sizes = (features.sizes - 1).clamp(min=1)[:, None, None]
    identity = torch.eye(means.shape[-1], dtype=means.dtype, device=means.device)
    covariances = features.scatter(means) / sizes + ridge * identity
    return [Statistics(*one) for one in zip(means, covariances, strict=True)]


def _triangle(square: Float[Tensor, "F F"]) -> Float[Tensor, "numbers"]:
    """The lower triangle of a symmetric matrix, row by row."""
    width = len(square)
    rows, columns = torch.tril_indices(width, width, device=square.device)
    return square[rows, columns]


def _stacked(rows: list[SharedParams], task: Task) -> ClientParams:
    """One row for each client, in the precision of the run."""
    return {n: torch.stack([row[n] for row in rows]).to(task.dtype) for n in rows[0]}
