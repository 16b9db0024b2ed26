"""FedAvg: one model for all, averaged from locally trained copies ("GlobalTrain" in Yu et al.).

McMahan, Moore, Ramage, Hampson, Aguera y Arcas. Communication-Efficient Learning of Deep Networks from Decentralized
Data. AISTATS 2017. https://arxiv.org/abs/1602.05629, Algorithm 1.

    w_i <- w
    E times, for a batch B:
        w_i <- w_i - lr grad f_i(w_i; B)
    w   <- sum_i (m_i / m) w_i                                  m_i samples of client i, m of the cohort

Idea: Clients train copies of one model on their own data, and the server averages them. With one step of full batches
this is gradient descent on all data together; more steps per round need less communication, but the copies drift
apart where clients differ.

When: one model suits all clients, or a reference for other methods is needed.

Sent: w, both ways. Kept: nothing; with ``finetune_steps`` a fine-tuned copy, made for each use.

Cost: one local training a round and one model each way: the unit of cost for the other methods.

Newcomers: use w, or with ``finetune_steps`` a copy tuned on their training data.

Deviations: with ``finetune_steps`` each client personalizes a copy of w on its training data, with a separate stream;
0 is the paper's method.

Pitfalls: the mean over clients hides those that the model does not fit: read the lowest 5 % too.
"""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from engine.core.params import SharedParams, broadcast
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import local_sgd
from engine.training.roles import OneGlobalModel


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("finetune_steps",)

    finetune_steps: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="SGD steps with which each client fine-tunes w before evaluation; 0 evaluates w itself.",
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "fedavg",
    title="FedAvg",
    paper="McMahan et al., AISTATS 2017",
    family="Baselines",
    style=Style(hue="dark grey", dash="dot", symbol="circle"),
    privacy=("client", "sample"),
    at_evaluation=("finetune_steps",),
)
@dataclass(frozen=True)
class FedAvg(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        w = local_sgd(task, broadcast(state.global_params, cohort.size), cohort)
        new = task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights)
        return State(new), Diagnostics(w.loss, w.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        if not self.hparams.finetune_steps:
            return Predictor(state.global_params, is_per_client=False)
        everyone = task.everyone(stream="finetune", steps=self.hparams.finetune_steps)
        tuned = local_sgd(task, broadcast(state.global_params, everyone.size), everyone)
        return Predictor.of_everyone(tuned.params, everyone)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        return self.personalized(state, task)
