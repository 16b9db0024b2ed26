"""LocalTrain: every client trains alone from the common start; nothing travels.

The baseline of one-stage FedProx (document 004, "LocalTrain") and the yardstick for every personalized method.

    theta_i <- theta_i - lr grad f_i(theta_i)
"""

from dataclasses import dataclass

from engine.batches import Cohort
from engine.local import local_sgd
from engine.ops import ClientParams, gather, scatter
from engine.registry import ALGORITHMS, NoOptions
from engine.task import Diagnostics, Predictor, Shared, Task


class Hparams(NoOptions):
    """None."""


@dataclass(frozen=True)
class State:
    personal_params: ClientParams  # theta_i


@ALGORITHMS.register(
    "local_train", title="LocalTrain", paper="Baseline of one-stage FedProx (document 004)", family="Baselines"
)
@dataclass(frozen=True)
class LocalTrain:
    hparams: Hparams

    def init(self, task: Task) -> State:
        return State(task.initial_clients())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        theta = local_sgd(task, gather(state.personal_params, cohort.clients), cohort)
        new = State(scatter(state.personal_params, theta.params, cohort.clients))
        return new, Diagnostics(theta.loss, theta.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        return Predictor(state.personal_params, is_per_client=True)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        return Shared()
