"""LP-FT: FedAvg's model, whose head and then whole network each client tunes before use.

Kumar, Raghunathan, Jones, Ma, Liang. Fine-Tuning can Distort Pretrained Features and Underperform
Out-of-Distribution. ICLR 2022. https://arxiv.org/abs/2202.10054. In federations: Chen et al., 2025.
https://arxiv.org/abs/2511.12695

    w <- sum_i (m_i / m) w_i                                    FedAvg, over the cohort
    theta_i <- w                                                for use
    lp_steps times, for a batch B:
        h_i <- h_i - lp_lr grad_h f_i(theta_i; B)               h_i the head of theta_i, its body frozen
    ft_steps times, for a batch B:
        theta_i <- theta_i - ft_lr grad f_i(theta_i; B)

Idea: The head of a new model does not fit the client's data, so the first steps of fine-tuning send large errors into
the body and distort features that were good. Linear probing fits the head first; then little is left that would bend
the body.

When: one global model is wanted that every client tunes before using it. Needs: a body under the head (dnn, cnn).

Sent: w, both ways. Kept: nothing; the tuned copy is made for each use.

Cost: one local training a round, plus the tuning of every client at each evaluation, which is not counted; bytes as
FedAvg.

Newcomers: tuned from w like every client.

Deviations: Kumar et al. probe to convergence, by logistic regression on fixed features, and choose the rates on
validation data; here both phases count steps. Each phase draws batches from a separate stream, and its momentum starts
at rest. Round 0 shows the start as it is, since tuning begins with a trained body.

Pitfalls: with few lp_steps the head still does not fit, and this is plain fine-tuning. A model without a body (mlr,
logistic) trains the same parameters in both phases.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from engine.core.params import SharedParams, broadcast
from engine.core.registry import ALGORITHMS, Options, Positive
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import SGD, local_sgd
from engine.training.roles import OneGlobalModel


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("lp_lr", "ft_lr")

    lp_steps: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="SGD steps of each client on the head before evaluation; more = more personal, 0 only fine-tunes.",
        json_schema_extra={"tune": [1, 50, "intlog"]},
    )
    ft_steps: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="SGD steps on the whole model afterwards; more = more personal, 0 keeps the shared body.",
        json_schema_extra={"tune": [1, 100, "intlog"]},
    )
    lp_lr: Positive | Literal["training"] = Field(
        "training",
        description="Learning rate of the head alone; larger = adapts faster.",
        json_schema_extra={"training": "lr"},
    )
    ft_lr: Positive | Literal["training"] = Field(
        "training",
        description="Learning rate of the whole model; larger = adapts faster.",
        json_schema_extra={"training": "lr"},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    is_trained: bool  # False in round 0


@ALGORITHMS.register(
    "lp_ft",
    title="LP-FT",
    paper="Kumar et al., ICLR 2022",
    family="Knowledge transfer",
    style=Style(hue="amber", dash="dot", symbol="square"),
    privacy=("client", "sample"),
    at_evaluation=("lp_steps", "ft_steps"),
)
@dataclass(frozen=True)
class LpFt(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if not task.model.body:
            task.note("lp_ft on a model without a body (mlr, logistic): both phases train the same parameters")
        if not (self.hparams.lp_steps or self.hparams.ft_steps):
            task.note("lp_ft with lp_steps=0 and ft_steps=0: nothing is tuned, this is fedavg")
        return State(task.initial_model(), is_trained=False)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        w = local_sgd(task, broadcast(state.global_params, cohort.size), cohort)
        mean = task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights)
        return State(mean, is_trained=True), Diagnostics(w.loss, w.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        if not state.is_trained:
            return Predictor(state.global_params, is_per_client=False)
        return self._tuned(state, task)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        return self._tuned(state, task)

    def _tuned(self, state: State, task: Task) -> Predictor:
        """Each client's copy of w after both phases."""
        h = self.hparams
        if not (h.lp_steps or h.ft_steps):
            return Predictor(state.global_params, is_per_client=False)
        everyone = task.everyone(steps=1)  # for their order; each phase has its own batches
        theta = broadcast(state.global_params, everyone.size)
        if h.lp_steps:
            sgd, plan = SGD.of(task, float(h.lp_lr)), task.plan(everyone, "probe", h.lp_steps)
            theta = local_sgd(task, theta, everyone, sgd, plan=plan, trained=task.model.head).params
        if h.ft_steps:
            sgd, plan = SGD.of(task, float(h.ft_lr)), task.plan(everyone, "finetune", h.ft_steps)
            theta = local_sgd(task, theta, everyone, sgd, plan=plan).params
        return Predictor.of_everyone(theta, everyone)
