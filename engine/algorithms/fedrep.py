"""FedRep: first the client's own head on the received body, then the body under that head.

Collins, Hassani, Mokhtari, Shakkottai. Exploiting Shared Representations for Personalized Federated Learning. ICML
2021. https://arxiv.org/abs/2102.07078, Algorithm 1.

    head_steps times, for a batch B:
        h_i <- h_i - lr grad_h f_i(phi, h_i; B)
    phi_i <- phi
    E times, for a batch B:
        phi_i <- phi_i - lr grad_phi f_i(phi_i, h_i; B)
    phi <- sum_i (m_i / m) phi_i                                over the cohort

Idea: FedPer, but one part at a time. A head that fits the received body comes first, so that the body's gradient
corrects the features and not a stale head.

When: labels differ, and the shared body is worth more local computation than in FedPer. Needs: a body under the head
(dnn, cnn).

Sent: phi, both ways. Kept: h_i.

Cost: head_steps + E steps per round, each counted in full although it moves one part only; bytes as FedAvg without the
head.

Newcomers: head_steps from the common initial head on the server's body, which does not change.

Deviations: the paper averages uniformly, we weight by samples as everywhere; its theory takes one step of the body, its
experiments one or more epochs, ours E steps. Head batches come from a separate stream. The training loss is the
mean over the steps of both parts.

Pitfalls: public code often trains the body with the head unfrozen, or leaves the head's gradient in the optimizer's
momentum; here each part starts without momentum and the other does not move.
"""

from dataclasses import dataclass

from pydantic import Field

from engine.core.devices import sent
from engine.core.params import ClientParams, SharedParams, broadcast, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import part, require_body, train_heads
from engine.training.local import local_sgd
from engine.training.roles import SplitModels


class Hparams(Options):
    head_steps: int = Field(
        10,
        ge=1,
        le=1_000_000,
        title="τ",
        description="Steps of the head before the body's in each round; more = more personal.",
        json_schema_extra={"tune": (1, 50, "intlog")},
    )


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # phi
    personal_params: ClientParams  # h_i


@ALGORITHMS.register(
    "fedrep",
    title="FedRep",
    paper="Collins et al., ICML 2021",
    family="Split models",
    style=Style(hue="purple", dash="solid", symbol="triangle-up"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedRep(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "fedrep")
        return State(part(task.initial_model(), task.model.body), part(task.initial_clients(), task.model.head))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        own = gather(state.personal_params, cohort.clients)
        heads = train_heads(task, state.shared_params, own, cohort, self.hparams.head_steps)
        bodies = local_sgd(task, heads.params, cohort, trained=task.model.body)
        uploads = part(bodies.params, task.model.body)
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.weights),
            scatter(state.personal_params, part(heads.params, task.model.head), cohort.clients),
        )
        steps = sent(cohort.plan.steps, task.device, task.dtype)
        loss = heads.loss.lerp(bodies.loss, steps / (steps + self.hparams.head_steps))
        return new, Diagnostics(loss, heads.gradient_evaluations + bodies.gradient_evaluations)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        start = broadcast(part(task.initial_model(), task.model.head), newcomers.size)
        heads = train_heads(task, state.shared_params, start, newcomers, self.hparams.head_steps)
        return Predictor.of_everyone(heads.params, newcomers)
