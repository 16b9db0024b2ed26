"""pFedMe: personalized models as proximal points of the global one (Moreau envelopes).

T Dinh, Tran, Nguyen. Personalized Federated Learning with Moreau Envelopes. NeurIPS 2020.
https://arxiv.org/abs/2006.08848, Algorithm 1.

    w_i <- w, theta_i <- w                                      at the start of the round
    E times, for a batch B:
        inner_steps times:
            theta_i <- theta_i - personal_lr [grad f_i(theta_i; B) + lam (theta_i - w_i)]
        w_i <- w_i - lr lam (w_i - theta_i)
    w   <- (1 - beta) w + beta mean_i w_i                       uniform, over the cohort

Idea: The personalized model is the point that fits the client's data best without leaving the neighborhood of w. The
server minimizes the clients' loss after that move, not the loss of w itself; lam sets the size of the neighborhood.

When: personalized models should stay near a global model that is trained for this use.

Sent: w, both ways. Kept: theta_i.

Cost: ``inner_steps`` gradients on each batch, where FedAvg has one; bytes as FedAvg.

Newcomers: take w and solve for theta_i in one round; what they would send is not used.

Deviations: theta_i is carried over between the batches of a round, and the personalized model is theta_i after the
client's last participation.

Pitfalls: public code evaluates w_i or w under the name of the personalized model, or adds a hidden L2 term of 0.001 to
the inner step. Few inner steps with a small personal_lr leave theta_i at w.
"""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from engine.core.params import ClientParams, SharedParams, broadcast, lerp, scatter
from engine.core.registry import ALGORITHMS
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import MoreauOptions, Trained, moreau_sgd
from engine.training.roles import PersonalModels
from engine.training.smoothness import note_if_unstable


class Hparams(MoreauOptions):
    advanced: ClassVar[tuple[str, ...]] = ("beta",)

    lam: float = Field(
        15.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Pull of each personalized model toward the local copy of the global one; larger = more global.",
        json_schema_extra={"tune": (0.5, 50, "log")},
    )
    inner_steps: int = Field(
        5, ge=1, le=1_000_000, description="Gradient steps toward the proximal point on each batch."
    )
    personal_lr: float = Field(
        0.05,
        gt=0,
        le=1e6,
        description="Learning rate of the inner steps.",
        json_schema_extra={"tune": (0.003, 0.3, "log")},
    )
    beta: float = Field(
        1.0,
        gt=0,
        le=1e6,
        title="β",
        description="Server's step from the global model toward the clients' mean; 1 takes the mean.",
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # theta_i


@ALGORITHMS.register(
    "pfedme",
    title="pFedMe",
    paper="T Dinh, Tran, Nguyen, NeurIPS 2020",
    family="Regularized toward a shared model",
    style=Style(hue="amber", dash="dash", symbol="diamond"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class PFedMe(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.lam == 0:
            task.note("pfedme with lam=0: the global model never moves and theta restarts from it every round")
        note_if_unstable(task, self.hparams.personal_lr, self.hparams.lam)
        return State(task.initial_model(), task.initial_clients())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        theta, w = self._local(state, cohort, task)
        mean = task.channel.aggregate(w, state.global_params, cohort, cohort.uniform)
        new = State(
            lerp(state.global_params, mean, self.hparams.beta),
            scatter(state.personal_params, theta.params, cohort.clients),
        )
        return new, Diagnostics(theta.loss, theta.gradient_evaluations)

    def _local(self, state: State, cohort: Cohort, task: Task) -> tuple[Trained, ClientParams]:
        """theta_i and w_i, both from w."""
        h = self.hparams
        return moreau_sgd(
            task,
            broadcast(state.global_params, cohort.size),
            cohort,
            lam=h.lam,
            inner_steps=h.inner_steps,
            personal_lr=h.personal_lr,
            outer_share=task.training.lr * h.lam,
        )

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        theta, _ = self._local(state, newcomers, task)
        return Predictor.of_everyone(theta.params, newcomers)
