"""IFCA: K models, and each client trains the one that fits its data best.

Ghosh, Chung, Yin, Ramchandran. An Efficient Framework for Clustered Federated Learning. NeurIPS 2020.
https://arxiv.org/abs/2006.04088, Algorithm 1 with model averaging.

    k_i     <- argmin_k f_i(omega_k)                            all training data of the client
    w_i     <- omega_k                                          k = k_i, then E steps of SGD on f_i
    omega_k <- sum_i m_i / m_k w_i                              over the participants in cluster k

Idea: Similar clients should share a model, but the groups are unknown. The server sends all K models, each client takes
the one with the least training loss, and FedAvg runs inside the groups that form.

When: clients form clear groups whose number is known, and one model suits each group. Needs: for K > 1 models that do
not start at zero (model.init).

Sent: all K models down; w_i up; the cluster's number is not counted. Kept: nothing.

Cost: one local training a round as FedAvg, and K forward passes over the training data to choose; K times FedAvg's
bytes down.

Newcomers: the model with the least loss on their training data, as it is.

Deviations: the choice that a participant makes is the one recorded after the last aggregation: the same models on the
same data. A non-participant is assigned to the model that fits it best now. Ties go to the lowest number; a cluster
that no client chose keeps its model.

Pitfalls: models with the same start stay the same, so they are drawn independently; where one start is better for every
client, all choose it and the others are never trained. The choice is by training data: public code that chooses by test
loss reports too much.

Diagnostics: clusters (of each client, participant or not), losses (training loss of each client under each model), ari
(where the true contexts are known).
"""

from dataclasses import dataclass

import torch
from pydantic import Field

from engine.core.errors import Unsupported
from engine.core.params import row
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Shared, Task
from engine.training.clustering import least_loss, train_inside
from engine.training.evaluate import training_losses
from engine.training.kmeans import Contexts, agreement
from engine.training.roles import ClusterModels


class Hparams(Options):
    K: int = Field(
        4,
        ge=1,
        le=10_000,
        description="Number of models; 1 is FedAvg, more = more personal.",
        json_schema_extra={"tune": (2, 8, "intlog")},
    )


@dataclass(frozen=True)
class State:
    contexts: Contexts  # omega_k, and the one that fits each client best


@ALGORITHMS.register(
    "ifca",
    title="IFCA",
    paper="Ghosh et al., NeurIPS 2020",
    family="Clustered",
    style=Style(hue="rust", dash="dash", symbol="hexagon"),
)
@dataclass(frozen=True)
class Ifca(ClusterModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        K = self.hparams.K
        if K > 1 and task.model.init == "zeros":
            raise Unsupported(f"ifca with K={K} and init: zeros: all models start equal; use init: default, or K: 1")
        if K == 1:
            task.note("ifca with K=1: one model for all, this is fedavg")
        if task.num_clients < K:
            task.note(f"ifca with K={K}: there are {task.num_clients} clients, so some models are never trained")
        drawn = [task.initial_model(k) for k in range(K)]
        models = {n: torch.stack([m[n] for m in drawn]) for n in drawn[0]}
        return State(Contexts(models, least_loss(training_losses(task, models))))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        old = state.contexts
        trained, arrived = train_inside(task, old, cohort)
        labels = old.assigned[cohort.clients[arrived.rows]]
        models = task.channel.combine_inside(arrived, old.models, labels, cohort)
        losses = training_losses(task, models)
        new = Contexts(models, least_loss(losses))
        values = {"losses": losses} | agreement(new.assigned, task.data.contexts)
        return State(new), Diagnostics(trained.loss, trained.gradient_evaluations, values, new.assigned)

    def shared(self, state: State) -> Shared:
        models = state.contexts.models
        down = tuple(row(models, k) for k in range(self.hparams.K))
        return Shared(down=down, up=down[:1])
