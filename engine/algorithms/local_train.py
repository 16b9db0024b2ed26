"""LocalTrain: every client trains alone from the common start; nothing is sent.

The baseline of one-stage FedProx (Yu et al., https://arxiv.org/abs/2410.08934) and the reference for every
personalized method.

    E times, for a batch B:
        theta_i <- theta_i - lr grad f_i(theta_i; B)            from the client's own last model

Idea: Each client fits its own data and ignores all others. A method that does not beat it gives its clients nothing
that they could not have had alone.

When: a reference is needed for what clients achieve without the others.

Sent: nothing. Kept: theta_i.

Cost: one local training a round, as FedAvg; no bytes at all.

Newcomers: start at the common initial model and train alone for one round.

Pitfalls: with little data per client it overfits, so its last round is often below its best. Clients that are seldom
drawn stay near the common start.
"""

from dataclasses import dataclass

from engine.core.params import ClientParams, broadcast, gather, scatter
from engine.core.registry import ALGORITHMS, NoOptions
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.local import local_sgd
from engine.training.roles import PersonalModels


class Hparams(NoOptions):
    """None."""


@dataclass(frozen=True)
class State:
    personal_params: ClientParams  # theta_i


@ALGORITHMS.register(
    "local_train",
    title="LocalTrain",
    paper="Baseline of one-stage FedProx (Yu et al., 2024)",
    family="Baselines",
    style=Style(hue="pale grey", dash="dashdot", symbol="square"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class LocalTrain(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        return State(task.initial_clients())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        theta = local_sgd(task, gather(state.personal_params, cohort.clients), cohort)
        new = State(scatter(state.personal_params, theta.params, cohort.clients))
        return new, Diagnostics(theta.loss, theta.gradient_evaluations)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        return Shared()

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        theta = local_sgd(task, broadcast(task.initial_model(), newcomers.size), newcomers)
        return Predictor.of_everyone(theta.params, newcomers)
