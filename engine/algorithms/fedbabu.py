"""FedBABU: only the body learns, under a head that never moves; clients fine-tune the whole model afterwards.

Oh, Kim, Yun. FedBABU: Toward Enhanced Representation for Federated Image Classification. ICLR 2022.
https://arxiv.org/abs/2106.06042, Algorithm 1.

    phi_i <- phi
    E times, for a batch B:
        phi_i <- phi_i - lr grad_phi f_i(phi_i, h; B)           h as it started, the same for all
    phi <- sum_i (m_i / m) phi_i                                over the cohort
    theta_i <- (phi, h)                                         for use
    finetune_steps times, for a batch B:
        theta_i <- theta_i - lr grad f_i(theta_i; B)

Idea: An averaged head forgets and relearns in every round, and drags the body along. With one fixed random head all
clients train features toward the same targets, and a few steps on the finished model personalize it.

When: labels differ, and every client can fine-tune its model before using it. Needs: a body under the head (dnn, cnn)
that does not start at zero (model.init).

Sent: phi, both ways; h is drawn from the common seed. Kept: nothing; the fine-tuned copy is made for each use.

Cost: one local training a round, plus the fine-tuning of every client at each evaluation, which is not counted; bytes
as FedAvg without the head.

Newcomers: fine-tuned from the server's body and the common head, like every client.

Deviations: fine-tuning counts steps, the paper epochs; its batches come from a separate stream. Round 0 shows the
start as it is, since fine-tuning begins with a trained body; FedAvg with finetune_steps and Per-FedAvg adapt theirs.

Pitfalls: the head must be the same for all clients and truly fixed: weight decay or momentum on it break the method.
Under a small fixed head the features grow long, and with them the head's gradient: fine-tuning at the rate that suited
the body can overshoot for its first steps.
"""

from dataclasses import dataclass

from pydantic import Field

from engine.core.errors import Unsupported
from engine.core.params import SharedParams, broadcast
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.body_head import part, require_body
from engine.training.local import local_sgd


class Hparams(Options):
    finetune_steps: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="SGD steps of each client on body and head before evaluation; more = more personal, 0 evaluates "
        "the global model itself.",
        json_schema_extra={"tune": (1, 100, "intlog")},
    )


@dataclass(frozen=True)
class State:
    body: SharedParams  # phi
    head: SharedParams  # h, as it started
    is_trained: bool  # False in round 0


@ALGORITHMS.register(
    "fedbabu",
    title="FedBABU",
    paper="Oh, Kim, Yun, ICLR 2022",
    family="Split models",
    style=Style(hue="purple", dash="dot", symbol="pentagon"),
    privacy=("client", "sample"),
    at_evaluation=("finetune_steps",),
)
@dataclass(frozen=True)
class FedBabu:
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "fedbabu")
        if task.model.init == "zeros":
            raise Unsupported(
                "fedbabu with model.init: zeros cannot learn: its head stays at zero and passes no gradient to the "
                "body; use init: default"
            )
        start = task.initial_model()
        return State(part(start, task.model.body), part(start, task.model.head), is_trained=False)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        start = broadcast(state.body | state.head, cohort.size)
        theta = local_sgd(task, start, cohort, trained=task.model.body)
        body = task.channel.aggregate(part(theta.params, task.model.body), state.body, cohort, cohort.weights)
        return State(body, state.head, is_trained=True), Diagnostics(theta.loss, theta.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        steps = self.hparams.finetune_steps if state.is_trained else 0
        return _finetuned(state, task.everyone(), task, steps)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return Predictor(state.body | state.head, is_per_client=False)

    def shared(self, state: State) -> Shared:
        return Shared(down=(state.body,), up=(state.body,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        return _finetuned(state, newcomers, task, self.hparams.finetune_steps)


def _finetuned(state: State, clients: Cohort, task: Task, steps: int) -> Predictor:
    """Each client's copy of the whole model after its own steps."""
    start = broadcast(state.body | state.head, clients.size)
    if steps == 0:
        return Predictor(broadcast(state.body | state.head, task.num_clients), is_per_client=True)
    theta = local_sgd(task, start, clients, plan=task.plan(clients, "finetune", steps))
    return Predictor.of_everyone(theta.params, clients)
