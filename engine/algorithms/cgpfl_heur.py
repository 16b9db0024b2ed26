"""CGPFL-Heur: CGPFL that chooses the number of clusters itself, from the first round's models.

Tang, Guo, Guo. Personalized Federated Learning with Contextualized Generalization. IJCAI 2022.
https://arxiv.org/abs/2106.13044, section 4.4.

    K^ = argmin_K e(K)                                          K = 1..min(floor(N/2), participants)
    e(K) = sqrt(d K/m log(e m/d)) + mu cost(K)
    cost(K) = sum_i m_i/m ||omega~_i - omega-bar_{k(i)}||^2     k(i): the nearest of K centroids

Idea: More clusters fit the clients better but leave fewer samples to learn each from. e(K) adds up both, and its
minimum is the number of clusters; from then on it is CGPFL with that number.

When: clients form groups whose number is not known, and still differ within each of them.

Sent: omega_k down; omega~_i up. Kept: theta_i.

Cost: as CGPFL with the number of clusters that is found; the server also clusters once for every K it considers.

Newcomers: join the cluster whose model has the least loss on their training data, and solve for theta_i in one
round.

Deviations: the clusters are counted on the omega~_i, anew in each of the first ``solve_rounds`` rounds; the paper takes
theta_i, which stay private here. d is the number of parameters, at most m, because the logarithm turns negative
beyond. mu="auto" = (first term at max_K - at 1)/(cost(1) - cost(max_K)): both terms span the same range (ours; the
paper says mu is tuned, and with mu = 1 the answer is K = 1).

Pitfalls: after one round clients have hardly moved, and their models differ by noise as much as by group: more
solve_rounds count again, on models that were trained from the clusters found before. Where the model has more
parameters than all clients have samples (d > m), the first term does not depend on the model.

Diagnostics: as cgpfl, ari included; K_hat; in rounds that solve also mu, d_eff and the two terms for every K (capacity,
cost), so that mu can be varied afterwards without training.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from engine.channel import Arrived
from engine.core.params import ClientParams, broadcast, clone, concat, scatter
from engine.core.registry import ALGORITHMS, Count, NonNegative, Positive
from engine.core.streams import key
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.contexts import PersonalModelsInContexts
from engine.training.kmeans import Contexts, cluster, coordinates, recluster
from engine.training.local import MoreauOptions
from engine.training.smoothness import note_if_unstable

_TIE = 1e-9  # values of e(K) this close count as equal, and the smallest K wins: with mu="auto" both ends tie


class Hparams(MoreauOptions):
    advanced: ClassVar[tuple[str, ...]] = ("max_K", "solve_rounds", "alpha", "beta")

    mu: NonNegative | Literal["auto"] = Field(
        "auto",
        title="μ",
        description="Weight of the spread inside clusters; larger = more clusters. auto: both terms span one range.",
    )
    max_K: Count | Literal["N/2"] = Field(
        "N/2", description="Maximum number of clusters to consider; at most half the clients."
    )
    solve_rounds: int = Field(
        1, ge=1, le=1_000_000, description="Number of first rounds, each of which solves for the number of clusters."
    )
    lam: float = Field(
        12.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Pull of each personalized model toward its cluster's; larger = more global.",
        json_schema_extra={"tune": (0.5, 50, "log")},
    )
    inner_steps: int = Field(
        5, ge=1, le=1_000_000, title="S", description="Gradient steps toward the proximal point on each batch."
    )
    personal_lr: float = Field(
        0.005,
        gt=0,
        le=1e6,
        title="η",
        description="Learning rate of the inner steps.",
        json_schema_extra={"tune": (0.003, 0.3, "log")},
    )
    alpha: float = Field(
        1.0, gt=0, le=1, title="α", description="Server's step toward the mean of a cluster; 1 takes the mean."
    )
    beta: Positive | Literal["auto"] = Field(
        "auto",
        title="β",
        description="Step size of the local copy of the cluster's model. auto: N lr lam / 2, pFedMe's step.",
    )


@dataclass(frozen=True)
class State:
    contexts: ClientParams  # omega_k, [K, ...]
    assigned: Int[Tensor, "N"]  # context of every client
    personal_params: ClientParams  # theta_i
    K_hat: int  # 0 before it is solved


@ALGORITHMS.register(
    "cgpfl_heur",
    title="CGPFL-Heur",
    paper="Tang, Guo, Guo, IJCAI 2022, section 4.4",
    family="Clustered",
    style=Style(hue="green", dash="dash", symbol="star"),
    privacy=("sample",),
    at_evaluation=(),
)
@dataclass(frozen=True)
class CgpflHeur(PersonalModelsInContexts):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.lam == 0:
            task.note("cgpfl_heur with lam=0: the clusters never move and theta restarts from them every round")
        note_if_unstable(task, self.hparams.personal_lr, self.hparams.lam)
        omega = clone(broadcast(task.initial_model(), 1))
        return State(omega, task.data.train.sizes.new_zeros(task.num_clients), task.initial_clients(), 0)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        h = self.hparams
        theta, omega, start = self.local(state, state.assigned, cohort, task)
        personal = scatter(state.personal_params, theta.params, cohort.clients)
        arrived = task.channel.deliver(omega, start, cohort, cohort.uniform)
        if not arrived.size:
            kept = replace(state, personal_params=personal)
            return kept, Diagnostics(theta.loss, theta.gradient_evaluations, clusters=state.assigned)
        stream = key(task.seed, "kmeans", cohort.round)
        K_hat, solved = state.K_hat, dict[str, float | Tensor]()
        if cohort.round <= h.solve_rounds or not K_hat:  # K_hat is still 0 if all uploads of those rounds were lost
            K_hat, solved = self._solve(arrived, cohort, task, stream)
        old = Contexts(_grown(state.contexts, K_hat), state.assigned)
        new, found = recluster(old, arrived, cohort, task, k=K_hat, alpha=h.alpha, stream=stream)
        values = found.diagnostics(state.assigned, new.assigned, task.data.contexts) | {"K_hat": float(K_hat)} | solved
        diagnostics = Diagnostics(theta.loss, theta.gradient_evaluations, values, new.assigned)
        return State(new.models, new.assigned, personal, K_hat), diagnostics

    def _solve(
        self, arrived: Arrived, cohort: Cohort, task: Task, stream: int
    ) -> tuple[int, dict[str, float | Tensor]]:
        """K^ and both terms of e(K) for K = 1, 2, ..."""
        h = self.hparams
        limit = task.num_clients // 2 if h.max_K == "N/2" else int(h.max_K)
        samples, points = task.num_pooled_samples, coordinates(arrived.params)
        most = max(1, min(limit, task.num_clients // 2, arrived.size))
        d = min(task.model.num_parameters, samples)
        candidates = np.arange(1, most + 1)
        capacity = np.sqrt(d * candidates / samples * np.log(np.e * samples / d))
        weights = task.weights[cohort.clients[arrived.rows]].cpu().numpy()
        cost = np.array([cluster(points, int(k), stream).cost(weights) for k in candidates])
        mu = self._mu(capacity, cost)
        bound = capacity + mu * cost
        K_hat = int(candidates[bound <= bound.min() * (1 + _TIE)][0])
        terms = {"capacity": torch.from_numpy(capacity), "cost": torch.from_numpy(cost)}
        return K_hat, {"mu": mu, "d_eff": float(d), **terms}

    def _mu(self, capacity: np.ndarray, cost: np.ndarray) -> float:
        if self.hparams.mu != "auto":
            return float(self.hparams.mu)
        saved = cost[0] - cost[-1]
        return float((capacity[-1] - capacity[0]) / saved) if saved > 0 else 0.0


def _grown(contexts: ClientParams, K: int) -> ClientParams:
    """At least K contexts: new ones start at the mean of the existing ones."""
    have = len(next(iter(contexts.values())))
    if have >= K:
        return contexts
    mean = {n: p.mean(0) for n, p in contexts.items()}
    return concat([contexts, broadcast(mean, K - have)])
