"""LG-FedAvg: every client keeps its own body, and the head is averaged.

Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov, Morency. Think Locally, Act Globally: Federated Learning with
Local and Global Representations. NeurIPS 2019 Workshop on Federated Learning. https://arxiv.org/abs/2001.01523,
Algorithm 1.

    h_i <- h
    E times, for a batch B:
        (phi_i, h_i) <- (phi_i, h_i) - lr grad f_i(phi_i, h_i; B)
    h <- sum_i (m_i / m) h_i                                    over the cohort

Idea: FedPer reversed: each client learns features for its own kind of data, and all share one small head on top. Where
clients' inputs differ this suits better than a common body, and the head is all that travels.

When: inputs differ and labels do not, or few bytes can be sent. Needs: a body under the head (dnn, cnn).

Sent: h, both ways. Kept: phi_i.

Cost: one local training a round; the bytes of the head alone.

Newcomers: a body trained for one participation from the common initial one, together with a copy of the head; the body
is kept and used under the server's head.

Deviations: the paper lets FedAvg warm up the whole model first and predicts for newcomers with an ensemble of all
bodies; we start from the common initial model and let newcomers train. A model without a body (mlr) is FedAvg: it runs,
with a note.

Pitfalls: bodies from different random starts have features in different orders, and their heads cannot be averaged: the
common start matters.
"""

from dataclasses import dataclass

from engine.core.params import ClientParams, SharedParams, broadcast, gather, in_client_order, scatter
from engine.core.registry import ALGORITHMS, NoOptions
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import part
from engine.training.local import Trained, local_sgd
from engine.training.roles import SplitModels, joined


class Hparams(NoOptions):
    """None."""


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # h
    personal_params: ClientParams  # phi_i


@ALGORITHMS.register(
    "lg_fedavg",
    title="LG-FedAvg",
    paper="Liang et al., 2019",
    family="Split models",
    style=Style(hue="green", dash="dashdot", symbol="square"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class LgFedAvg(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if not task.model.body:
            task.note("lg_fedavg on a model without a body (mlr, logistic) is fedavg: nothing is personalized")
        return State(part(task.initial_model(), task.model.head), part(task.initial_clients(), task.model.body))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        bodies = gather(state.personal_params, cohort.clients)
        theta = self._train(bodies, state.shared_params, cohort, task)
        uploads = part(theta.params, task.model.head)
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.weights),
            scatter(state.personal_params, part(theta.params, task.model.body), cohort.clients),
        )
        return new, Diagnostics(theta.loss, theta.gradient_evaluations)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        bodies = broadcast(part(task.initial_model(), task.model.body), newcomers.size)
        theta = self._train(bodies, state.shared_params, newcomers, task)
        own = in_client_order(part(theta.params, task.model.body), newcomers.clients)
        return joined(state, own, task)

    def _train(self, bodies: ClientParams, head: SharedParams, cohort: Cohort, task: Task) -> Trained:
        """Body and head together, each client from its own body and the received head."""
        return local_sgd(task, bodies | broadcast(head, cohort.size), cohort)
