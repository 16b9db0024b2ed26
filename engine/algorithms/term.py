"""TERM: one model for all, averaged with weights that rise exponentially with the clients' losses.

Li, Beirami, Sanjabi, Smith. Tilted Empirical Risk Minimization. ICLR 2021. https://arxiv.org/abs/2007.01162,
with the clients as groups.

    F_i <- f_i(w)                                               all training data of the client, w as received
    w_i <- w, then E steps of SGD on f_i
    a_i <- p_i exp(t F_i) / (sum_j p_j exp(t F_j))              p_i = m_i / m over the cohort
    w   <- sum_i a_i w_i

Idea: Descends (1/t) log sum_i p_i exp(t f_i), which runs from the mean of the losses (t = 0, FedAvg) to the largest
(t to infinity). A positive t helps the worst clients, a negative one ignores clients whose data are wrong.

When: one model is wanted that serves the worst clients, or that ignores clients whose data are wrong.

Sent: w down; w_i and F_i up. Kept: nothing.

Cost: one local training as FedAvg, and a forward pass over the training data.

Newcomers: use w as it is.

Deviations: the authors divide by a moving average that starts at 0, which doubles the first round's step, and leave out
p_i; here the weights of a cohort sum to 1.

Pitfalls: exp(t F_i) overflows for losses of some hundreds unless the largest exponent is subtracted first. With a large
t only one client trains the model.

Diagnostics: losses, F_i; weights, a_i of the uploads that arrived (both NaN for clients that did not take part).
"""

from dataclasses import dataclass

from pydantic import Field
from torch import Tensor

from engine.core.params import SharedParams, broadcast, by_client
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Shared, Task
from engine.training.evaluate import cohort_losses
from engine.training.local import local_sgd
from engine.training.roles import OneGlobalModel


class Hparams(Options):
    t: float = Field(
        1.0,
        ge=-1e6,
        le=1e6,
        description="Tilt: larger = the worst clients first, 0 is FedAvg, negative = ignores the worst clients.",
        json_schema_extra={"tune": [0.01, 10.0, "log"]},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "term",
    title="TERM",
    paper="Li et al., ICLR 2021",
    family="Baselines",
    style=Style(hue="pale grey", dash="longdash", symbol="bowtie"),
)
@dataclass(frozen=True)
class Term(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.t == 0:
            task.note("term with t=0: the same as fedavg")
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        losses = cohort_losses(task, state.global_params, cohort)
        received = broadcast(state.global_params, cohort.size)
        local = local_sgd(task, received, cohort)
        tilted = (cohort.weights.log() + self.hparams.t * losses).softmax(0)  # a_i; subtracts the largest exponent
        values: dict[str, float | Tensor] = {
            "losses": by_client(losses, cohort.clients, task.num_clients),
        }
        arrived = task.channel.deliver(local.params, received, cohort, tilted, num_extra=1)
        values["weights"] = by_client(arrived.weights, cohort.clients[arrived.rows], task.num_clients)
        if not arrived.size:
            return state, Diagnostics(local.loss, local.gradient_evaluations, values)
        new = State(task.channel.combine(arrived, state.global_params, cohort))
        return new, Diagnostics(local.loss, local.gradient_evaluations, values)

    def shared(self, state: State) -> Shared:
        w = state.global_params
        return Shared(down=(w,), up=(w, {"F": next(iter(w.values())).new_zeros(())}))
