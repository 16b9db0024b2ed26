"""FedSAM: FedAvg whose clients search for flat minima.

Qu, Li, Duan, Liu, Tang, Lu. Generalized Federated Learning via Sharpness Aware Minimization. ICML 2022.
https://arxiv.org/abs/2206.02618, Algorithm 1.

    w_i <- w
    E times, for a batch B:
        g   <- grad f_i(w_i; B)
        eps <- rho g / ||g||                                    over all parameters; 0 where g = 0
        w_i <- w_i - lr grad f_i(w_i + eps; B)                  the same batch
    w   <- sum_i (m_i / m) w_i                                  over the cohort

Idea: Where clients differ, their local models end in sharp minima that fit no other client. Each local step therefore
descends the loss at the worst point within rho of the model, so that clients find flat minima. Such models suffer less
from averaging.

When: one model is wanted that generalizes better than FedAvg's, at twice the gradients.

Sent: w, both ways. Kept: nothing.

Cost: two gradients a step; bytes as FedAvg.

Newcomers: use w as it is.

Pitfalls: the second gradient is of the same batch, and the step starts from w_i, not from w_i + eps.
"""

from dataclasses import dataclass

from pydantic import Field

from engine.core.params import SharedParams, broadcast
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.roles import OneGlobalModel
from engine.training.sam import sam_sgd


class Hparams(Options):
    rho: float = Field(
        0.05,
        ge=0,
        le=1e6,
        title="ρ",
        description="Radius of the perturbation; larger = flatter minima, 0 is FedAvg.",
        json_schema_extra={"tune": (0.005, 0.5, "log")},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "fedsam",
    title="FedSAM",
    paper="Qu et al., ICML 2022",
    family="Sharpness-aware",
    style=Style(hue="sky", dash="dash", symbol="triangle-down"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedSam(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.rho == 0:
            task.note("fedsam with rho=0: the same as fedavg, with twice the gradients")
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        w = sam_sgd(task, broadcast(state.global_params, cohort.size), cohort, self.hparams.rho)
        new = task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights)
        return State(new), Diagnostics(w.loss, w.gradient_evaluations)
