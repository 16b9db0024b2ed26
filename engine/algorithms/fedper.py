"""FedPer: the body is averaged, and every client keeps its own head.

Arivazhagan, Aggarwal, Singh, Choudhary. Federated Learning with Personalization Layers. 2019.
https://arxiv.org/abs/1912.00818, Algorithms 1 and 2.

    phi_i <- phi
    E times, for a batch B:
        (phi_i, h_i) <- (phi_i, h_i) - lr grad f_i(phi_i, h_i; B)
    phi <- sum_i (m_i / m) phi_i                                over the cohort

Idea: Clients agree on features more easily than on labels. So FedAvg runs on the lower layers, while the last one,
which depends most on a client's labels, never leaves the client.

When: labels differ and inputs do not; the simplest way to split a model. Needs: a body under the head (dnn, cnn).

Sent: phi, both ways. Kept: h_i.

Cost: one local training a round; bytes as FedAvg without the head.

Newcomers: a head trained for one participation from the common initial one, together with a copy of the body; the head
is kept and used on the server's body.

Deviations: none in the rule. A model without a body (mlr) trains locally, one without a head is FedAvg: both run, with
a note.

Pitfalls: body and head of a client fit one another only until the server averages: evaluate the averaged body with the
client's head, not the pair that was trained. A cut behind a log-softmax instead of before the last layer costs points.
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
    shared_params: SharedParams  # phi
    personal_params: ClientParams  # h_i


@ALGORITHMS.register(
    "fedper",
    title="FedPer",
    paper="Arivazhagan et al., 2019",
    family="Split models",
    style=Style(hue="purple", dash="dash", symbol="triangle-down"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedPer(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if not task.model.body:
            task.note("fedper on a model without a body (mlr, logistic) is local training: nothing is averaged")
        if not task.model.head:
            task.note("fedper on a model without a head is fedavg: nothing is personalized")
        return State(part(task.initial_model(), task.model.body), part(task.initial_clients(), task.model.head))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        heads = gather(state.personal_params, cohort.clients)
        theta = self._train(state.shared_params, heads, cohort, task)
        uploads = part(theta.params, task.model.body)
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.weights),
            scatter(state.personal_params, part(theta.params, task.model.head), cohort.clients),
        )
        return new, Diagnostics(theta.loss, theta.gradient_evaluations)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        heads = broadcast(part(task.initial_model(), task.model.head), newcomers.size)
        theta = self._train(state.shared_params, heads, newcomers, task)
        own = in_client_order(part(theta.params, task.model.head), newcomers.clients)
        return joined(state, own, task)

    def _train(self, body: SharedParams, heads: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """Body and head together, each client from the received body and its own head."""
        return local_sgd(task, broadcast(body, cohort.size) | heads, cohort)
