"""FedProx: FedAvg whose local training stays near the received model.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith. Federated Optimization in Heterogeneous Networks. MLSys 2020.
https://arxiv.org/abs/1812.06127, Algorithm 2.

    w_i <- w
    E times, for a batch B:
        w_i <- w_i - lr [grad f_i(w_i; B) + mu (w_i - w)]       w as received
    w   <- sum_i (m_i / m) w_i                                  over the cohort

Idea: A proximal term pulls each local copy back to the model it started from, so that many local steps on different
data drift less far. There is still one model for all; mu = 0 is FedAvg.

When: one model is wanted, and local training drifts: the simplest remedy.

Sent: w, both ways. Kept: nothing.

Cost: as FedAvg.

Newcomers: use w as it is.

Pitfalls: mu slows local training down as well; a fair comparison tunes it and the learning rate together. Where
lr (L + mu) exceeds 2 the steps diverge, L being the smoothness of f_i.
"""

from dataclasses import dataclass

from pydantic import Field

from engine.core.params import SharedParams, broadcast
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.local import SGD, local_sgd
from engine.training.roles import OneGlobalModel
from engine.training.smoothness import note_if_unstable


class Hparams(Options):
    mu: float = Field(
        0.1,
        ge=0,
        le=1e6,
        title="μ",
        description="Pull of local training toward the received model; larger = more global, 0 is FedAvg.",
        json_schema_extra={"tune": (0.001, 1, "log")},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "fedprox",
    title="FedProx",
    paper="Li et al., MLSys 2020",
    family="Baselines",
    style=Style(hue="grey", dash="dash", symbol="diamond"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedProx(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.mu == 0:
            task.note("fedprox with mu=0: the same as fedavg")
        note_if_unstable(task, task.training.lr, self.hparams.mu)
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        received = broadcast(state.global_params, cohort.size)
        w = local_sgd(task, received, cohort, SGD.of(task, prox=(self.hparams.mu, received)))
        new = task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights)
        return State(new), Diagnostics(w.loss, w.gradient_evaluations)
