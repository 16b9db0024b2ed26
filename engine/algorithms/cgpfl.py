"""CGPFL: personalized models pulled toward the generalized model of their cluster; clusters found by k-means.

Tang, Guo, Guo. Personalized Federated Learning with Contextualized Generalization. IJCAI 2022.
https://arxiv.org/abs/2106.13044, Algorithm 1.

    omega~_i <- omega_k, theta_i <- omega_k                     client i in cluster k
    E times, for a batch B:
        inner_steps times:
            theta_i <- theta_i - personal_lr [grad f_i(theta_i; B) + lam (theta_i - omega~_i)]
        omega~_i <- omega~_i - beta (2/N) (omega~_i - theta_i)
    clusters <- k-means of the participants' omega~_i           unweighted, scikit-learn
    omega_k  <- omega_k - alpha (omega_k - mean_i omega~_i)     uniform, over the participants in cluster k

Idea: Clients fall into K clusters (the paper says contexts) with a model each, and pull their own model toward that of
their cluster, where pFedMe has one model for all. The server finds new clusters each round by clustering what the
clients send.

When: clients form a known number of groups and still differ within each of them.

Sent: omega_k down; omega~_i up. Kept: theta_i.

Cost: ``inner_steps`` gradients on each batch, where FedAvg has one; bytes as FedAvg. The server clusters the uploads
each round.

Newcomers: join the cluster whose model has the least loss on their training data, and solve for theta_i in one round.

Deviations: the paper gives neither beta nor the start of theta: beta="auto" takes beta 2/N = lr lam, pFedMe's step, and
theta starts at omega_k. All clusters start at the common model with every client in cluster 0. Labels keep their
identity between rounds; empty clusters keep their model, non-participants their cluster.

Pitfalls: with more clusters than there are groups of clients, a cluster holds few clients and learns little. Cluster
numbers mean nothing across runs unless they are matched.

Diagnostics: clusters (of each client), Q (transitions), inertia, kmeans_iterations, kmeans_seconds (figure 5b
of the paper), model_distance (figure 5a), ari (where the true contexts are known).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from engine.core.params import ClientParams, broadcast, clone, scatter
from engine.core.registry import ALGORITHMS, Positive
from engine.core.streams import key
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.contexts import PersonalModelsInContexts
from engine.training.kmeans import Contexts, recluster
from engine.training.local import MoreauOptions
from engine.training.smoothness import note_if_unstable


class Hparams(MoreauOptions):
    advanced: ClassVar[tuple[str, ...]] = ("alpha", "beta")

    K: int = Field(
        4,
        ge=1,
        le=10_000,
        description="Number of clusters; 1 = pFedMe, more = more personal.",
        json_schema_extra={"tune": (2, "clients/2", "intlog")},
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


@ALGORITHMS.register(
    "cgpfl",
    title="CGPFL",
    paper="Tang, Guo, Guo, IJCAI 2022",
    family="Clustered",
    style=Style(hue="green", dash="solid", symbol="circle"),
    privacy=("sample",),
    at_evaluation=(),
)
@dataclass(frozen=True)
class Cgpfl(PersonalModelsInContexts):
    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if task.num_clients < h.K:
            task.note(
                f"cgpfl with K={h.K}: there are {task.num_clients} clients, so at most that many clusters are used"
            )
        if h.lam == 0:
            task.note("cgpfl with lam=0: the clusters never move and theta restarts from them every round")
        note_if_unstable(task, h.personal_lr, h.lam)
        omega = clone(broadcast(task.initial_model(), min(h.K, task.num_clients)))
        assigned = task.data.train.sizes.new_zeros(task.num_clients)
        return State(omega, assigned, task.initial_clients())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        h = self.hparams
        theta, omega, start = self.local(state, state.assigned, cohort, task)
        personal = scatter(state.personal_params, theta.params, cohort.clients)
        arrived = task.channel.deliver(omega, start, cohort, cohort.uniform)
        if not arrived.size:
            kept = replace(state, personal_params=personal)
            return kept, Diagnostics(theta.loss, theta.gradient_evaluations, clusters=state.assigned)
        old = Contexts(state.contexts, state.assigned)
        stream = key(task.seed, "kmeans", cohort.round)
        new, found = recluster(old, arrived, cohort, task, k=h.K, alpha=h.alpha, stream=stream)
        values = found.diagnostics(state.assigned, new.assigned, task.data.contexts)
        diagnostics = Diagnostics(theta.loss, theta.gradient_evaluations, values, new.assigned)
        return State(new.models, new.assigned, personal), diagnostics
