"""Ditto: a personalized model per client, pulled towards the global one.

Li, Hu, Beirami, Smith. Ditto: Fair and Robust Federated Learning Through Personalization. ICML 2021.
https://arxiv.org/abs/2012.04221, Algorithm 1.

    w   <- sum_i m_i / m w_i                                    FedAvg, over the cohort
    v_i <- v_i - lr [grad f_i(v_i) + lam (v_i - w)]             w as received this round

Both paths use the same batches. PFLlib's default (lam reaching the optimizer as 0) trains locally; here lam acts.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from engine.batches import Cohort
from engine.local import local_sgd
from engine.ops import ClientParams, SharedParams, broadcast, gather, scatter, weighted_mean
from engine.registry import ALGORITHMS, Count, Options, Positive
from engine.smoothness import note_if_unstable
from engine.task import Diagnostics, Predictor, Shared, Task


class Hparams(Options):
    lam: float = Field(
        1.0,
        ge=0,
        title="λ",
        description="Pull of each personalized model towards the global one; larger = more global, 0 trains locally.",
    )
    personal_steps: Count | Literal["training"] = Field(
        "training",
        description="Steps of the personalized model a round.",
        json_schema_extra={"training": "local_steps"},
    )
    personal_lr: Positive | Literal["training"] = Field(
        "training", description="Learning rate of the personalized model.", json_schema_extra={"training": "lr"}
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # v_i


@ALGORITHMS.register("ditto", title="Ditto", paper="Li et al., ICML 2021", family="Pulled together")
@dataclass(frozen=True)
class Ditto:
    hparams: Hparams

    def init(self, task: Task) -> State:
        note_if_unstable(task, float(self.hparams.personal_lr), self.hparams.lam)
        return State(task.initial_model(), task.initial_clients())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        h = self.hparams
        received = broadcast(state.global_params, cohort.size)
        w = local_sgd(task, received, cohort)
        v = local_sgd(
            task, gather(state.personal_params, cohort.clients), cohort, lr=float(h.personal_lr),
            plan=task.same_batches(cohort, h.personal_steps), prox=(h.lam, received),
        )  # fmt: skip
        new = State(weighted_mean(w.params, cohort.weights), scatter(state.personal_params, v.params, cohort.clients))
        return new, Diagnostics(v.loss, w.gradient_evaluations + v.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        return Predictor(state.personal_params, is_per_client=True)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return Predictor(state.global_params, is_per_client=False)

    def shared(self, state: State) -> Shared:
        return Shared(down=(state.global_params,), up=(state.global_params,))
