"""Ditto: a personalized model per client, pulled toward the global one.

Li, Hu, Beirami, Smith. Ditto: Fair and Robust Federated Learning Through Personalization. ICML 2021.
https://arxiv.org/abs/2012.04221, Algorithm 1.

    w   <- sum_i (m_i / m) w_i                                  FedAvg, over the cohort
    v_i <- v_i - lr [grad f_i(v_i) + lam (v_i - w)]             w as received this round

Idea: FedAvg trains the global model as usual. In addition each client trains a personalized model on its own data, held
near the global one: at lam = 0 it trains alone, and as lam grows it approaches the global model.

When: a simple and strong reference is needed, with one dial from training alone to one shared model.

Sent: w, both ways. Kept: v_i.

Cost: two local trainings a round, twice FedAvg's gradients; bytes as FedAvg.

Newcomers: train v_i for one round from the common initial model, pulled toward w.

Deviations: both paths use the same batches.

Pitfalls: PFLlib's default amounts to lam = 0, so that its personalized models are trained alone; here they are pulled
toward w. Where lr (L + lam) exceeds 2 the personal steps diverge, L being the smoothness of f_i.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from engine.core.params import ClientParams, SharedParams, broadcast, gather, scatter
from engine.core.registry import ALGORITHMS, Count, Options, Positive
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import SGD, Trained, local_sgd
from engine.training.roles import PersonalModels
from engine.training.smoothness import note_if_unstable


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("personal_steps", "personal_lr")

    lam: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Pull of each personalized model toward the global one; larger = more global, 0 = learning alone.",
        json_schema_extra={"tune": (0.01, 10, "log")},
    )
    personal_steps: Count | Literal["training"] = Field(
        "training",
        description="Steps of the personalized model per round.",
        json_schema_extra={"training": "local_steps"},
    )
    personal_lr: Positive | Literal["training"] = Field(
        "training", description="Learning rate of the personalized model.", json_schema_extra={"training": "lr"}
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # v_i


@ALGORITHMS.register(
    "ditto",
    title="Ditto",
    paper="Li et al., ICML 2021",
    family="Regularized toward a shared model",
    style=Style(hue="sky", dash="solid", symbol="square"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class Ditto(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.lam == 0:
            task.note("ditto with lam=0: each personalized model is trained alone, as by local_train")
        note_if_unstable(task, float(self.hparams.personal_lr), self.hparams.lam)
        return State(task.initial_model(), task.initial_clients())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        w = local_sgd(task, broadcast(state.global_params, cohort.size), cohort)
        v = self._pulled(state, gather(state.personal_params, cohort.clients), cohort, task.without_upload_privacy)
        new = State(
            task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights),
            scatter(state.personal_params, v.params, cohort.clients),
        )
        return new, Diagnostics(v.loss, w.gradient_evaluations + v.gradient_evaluations)

    def _pulled(self, state: State, start: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """v_i, from ``start`` [S, ...], pulled toward the w that the cohort received."""
        h = self.hparams
        sgd = SGD.of(task, float(h.personal_lr), prox=(h.lam, broadcast(state.global_params, cohort.size)))
        return local_sgd(task, start, cohort, sgd, plan=task.same_batches(cohort, h.personal_steps))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        v = self._pulled(state, broadcast(task.initial_model(), newcomers.size), newcomers, task)
        return Predictor.of_everyone(v.params, newcomers)
