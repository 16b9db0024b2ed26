"""MOCHA: a linear model per client, tied by a matrix of the clients' similarities that is learned with them.

Smith, Chiang, Sanjabi, Talwalkar. Federated Multi-Task Learning. NeurIPS 2017. https://arxiv.org/abs/1705.10467,
Algorithm 1, for any smooth loss; W = [w_1 ... w_N], and row i of B is b_i.

    minimize over W and Sigma, tr Sigma = 1:
        sum_i f_i(w_i) + lam/2 tr(W Sigma^{-1} W')
    W     =  B' Sigma / lam                                     from Sigma = I / N, b_i = lam N w_0
    s     =  max_i sum_j |Sigma_ij| / Sigma_ii, k_i = lam / (s Sigma_ii)
    E times, for a batch B_t, from u_i = w_i:
        u_i <- u_i - lr [grad f_i(u_i; B_t) + b_i + k_i (u_i - w_i)]
    b_i   <- b_i + k_i (u_i - w_i)
    Sigma <- (W' W)^{1/2} / tr (W' W)^{1/2}                     learned, after every sigma_every rounds

Idea: Each client has a task of its own, and Sigma says which tasks are alike. The b_i are dual variables: at the
optimum b_i = -grad f_i(w_i), and each w_i is a mixture of the b_j by the similarities. A client changes only its own
b_i, and the server computes all models from them, anew after each change of B or Sigma.

When: the model is linear and the similarities of the clients are of interest. Needs: a linear model (mlr, logistic) for
its theory, and at most 10,000 clients.

Sent: w_i down, the change of b_i up (its step k_i, one number, is not counted). Kept: b_i; the server has a copy.

Cost: as FedAvg, and one more gradient of a batch for the diagnostic, which is not counted. The server keeps B and
Sigma, P being the number of parameters; the models take N^2 P operations and Sigma N^3.

Newcomers: start at the common initial model and train alone for one round, with a weight decay of lam N as at
Sigma = I / N.

Deviations: the authors solve the dual of the hinge loss by coordinate ascent; b_i and k_i are the same method for any
smooth loss, here cross-entropy, without Sigma^{-1}. Biases are part of w_i. Sigma is estimated over the clients that
have taken part, with their share of the trace; the others keep their entries of I / N until then.

Pitfalls: the theory covers convex losses (mlr, logistic); networks run with a note. The authors' run_mocha.m changes
Sigma but not W. PFLlib's regularizer has no gradient, so it trains each client alone.

Diagnostics: Sigma; dual_gap, the norm of b_i + grad f_i(u_i) on one batch, a mean over the cohort; 0 at the optimum
with full batches.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from engine.core.errors import Unsupported
from engine.core.params import (
    ClientParams,
    broadcast,
    clone,
    dot,
    each,
    flatten,
    gather,
    map_params,
    mixtures,
    row,
    scatter,
)
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.local import SGD, Live, for_each_client, local_sgd
from engine.training.roles import PersonalModels
from engine.training.smoothness import is_linear, note_if_unstable

_LEAST = 1e-6  # of Sigma_ii N: a smaller one would make k_i huge
_MOST_CLIENTS = 10_000  # Sigma has their square


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("sigma_every",)

    lam: float = Field(
        1e-3,
        gt=0,
        le=1e6,
        title="λ",
        description="Strength of the common regularizer; larger = models more alike, with smaller weights.",
        json_schema_extra={"tune": [1e-5, 0.1, "log"]},
    )
    structure: Literal["learned", "independent"] = Field(
        "learned", description="Learn the similarities of the clients, or train each alone with weight decay λ N."
    )
    sigma_every: int = Field(5, ge=1, le=1_000_000, description="Rounds between two estimates of the similarities.")


@dataclass(frozen=True)
class State:
    duals: ClientParams  # b_i
    sigma: Float[Tensor, "N N"]
    is_known: Bool[Tensor, "N"]  # has taken part


@ALGORITHMS.register(
    "mocha",
    title="MOCHA",
    paper="Smith et al., NeurIPS 2017",
    family="Regularized toward a shared model",
    style=Style(hue="teal", dash="dashdot", symbol="hexagram"),
    averages=False,
)
@dataclass(frozen=True)
class Mocha(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        h, count = self.hparams, task.num_clients
        if count > _MOST_CLIENTS:
            raise Unsupported(
                f"mocha compares all pairs of clients, at most {_MOST_CLIENTS:,} clients, and there are {count:,}; "
                "choose fewer clients, or ditto"
            )
        if not is_linear(task):
            task.note("mocha with a network: the theory covers linear models only (mlr, logistic)")
        if h.structure == "independent":
            task.note("mocha with structure: independent: each client trains alone, with a weight decay of lam N")
        note_if_unstable(task, task.training.lr, h.lam * count)
        duals = task.for_clients(map_params(lambda p: h.lam * count * p, task.initial_model()))
        sigma = torch.eye(count, dtype=task.dtype, device=task.device) / count
        return State(duals, sigma, torch.zeros(count, dtype=torch.bool, device=task.device))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        lam, own, start = self.hparams.lam, gather(state.duals, cohort.clients), self._models(state, cohort.clients)
        pull = lam / (overlap(state.sigma) * state.sigma.diagonal()[cohort.clients])  # k_i
        local = local_sgd(task, start, cohort, SGD.of(task, prox=(pull, start), drift=own))
        moved = {n: torch.addcmul(b, each(pull, b), local.params[n] - start[n]) for n, b in own.items()}
        arrived = task.channel.deliver(moved, own, cohort, cohort.uniform)
        clients = cohort.clients[arrived.rows]
        is_known = state.is_known.index_fill(0, clients, True)
        new = State(scatter(state.duals, arrived.params, clients), state.sigma, is_known)
        if self.hparams.structure == "learned" and cohort.round % self.hparams.sigma_every == 0:
            new = replace(new, sigma=similarities(self._models(new), is_known, state.sigma))
        values: dict[str, float | Tensor] = {
            "Sigma": new.sigma,
            "dual_gap": _dual_gap(task.without_upload_privacy, local.params, moved, cohort),
        }
        return new, Diagnostics(local.loss, local.gradient_evaluations, values)

    def _models(self, state: State, clients: Tensor | None = None) -> ClientParams:
        """w_i of the given clients, or of all: columns of B' Sigma / lam."""
        sigma = state.sigma if clients is None else state.sigma[clients]
        return mixtures(state.duals, sigma / self.hparams.lam)

    def personalized(self, state: State, task: Task) -> Predictor:
        return Predictor(self._models(state), is_per_client=True)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        b = row(state.duals, 0)
        return Shared(down=(b,), up=(b,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        decay = task.training.weight_decay + self.hparams.lam * len(state.sigma)
        start = broadcast(task.initial_model(), newcomers.size)
        local = local_sgd(task, start, newcomers, replace(SGD.of(task), weight_decay=decay))
        return Predictor.of_everyone(local.params, newcomers)


def overlap(sigma: Float[Tensor, "N N"]) -> Float[Tensor, ""]:
    """s: 1 where the clients are independent, N where they are equal."""
    return (sigma.abs().sum(1) / sigma.diagonal()).max()


def similarities(
    models: ClientParams, is_known: Bool[Tensor, "N"], sigma: Float[Tensor, "N N"]
) -> Float[Tensor, "N N"]:
    """(W'W)^(1/2) over the known clients, scaled to their share of the trace 1; I/N for the others.

    ``sigma`` is kept if the models are all 0 or not finite.
    """
    count, known = len(is_known), is_known.double()
    matrix = flatten(models).double()
    pairs = known * known[:, None]
    gram = (matrix @ matrix.T).where(pairs > 0, 0.0)
    is_usable = gram.isfinite().all() & (gram.diagonal().sum() > 0)
    values, vectors = torch.linalg.eigh(gram.where(is_usable, 0.0))
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T * pairs
    trace = root.diagonal().sum()
    found = root / trace.where(is_usable, 1.0) * (known.sum() / count)
    is_small = (found.diagonal() < _LEAST / count) & is_known
    found = found + (known * is_small.any() * _LEAST / count).diag() + ((1 - known) / count).diag()
    return found.to(sigma.dtype).where(is_usable, sigma)


def _dual_gap(task: Task, models: ClientParams, duals: ClientParams, cohort: Cohort) -> Float[Tensor, ""]:
    """||b_i + grad f_i(u_i)|| on one batch of each client, a mean over the cohort."""

    def add_gradient(c: Live, batch: Batch) -> Tensor:
        residual = clone(c.duals)
        loss = c.task.backend.accumulate(residual, c.models, batch, 1.0, 1.0)
        c.gap.copy_(dot(residual, residual).sqrt_())
        return loss

    plan, start = task.plan(cohort, "dual gap", 1), torch.zeros_like(cohort.weights)
    fixed = {"duals": duals, "models": models}
    gap: Tensor = for_each_client(task, plan, {"gap": start}, add_gradient, fixed=fixed, same="dual gap").gap
    return gap.mean()
