"""FedNova: FedAvg whose updates are divided by the number of local steps that made them.

Wang, Liu, Liang, Joshi, Poor. Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization.
NeurIPS 2020. https://arxiv.org/abs/2007.07481.

    w_i   <- w, then tau_i steps of SGD on f_i
    a_i   =  tau_i                                              plain SGD
    a_i   =  (tau_i - rho (1 - rho^tau_i) / (1 - rho)) / (1 - rho)   momentum rho
    a     =  sum_i p_i a_i                                      p_i = m_i / m over the cohort
    w     <- w + a sum_i p_i (w_i - w) / a_i

Idea: With ``local_epochs``, clients with more samples take more steps and move further, so FedAvg minimizes the sum of
p_i tau_i f_i instead of p_i f_i. FedNova averages the mean direction of a step, and gives every client the same mean
number of steps.

When: clients take different numbers of local steps. Needs: ``local_epochs``, and clients with different numbers of
samples.

Sent: w down; w_i and a_i up. Kept: nothing.

Cost: as FedAvg.

Newcomers: use w as it is.

Deviations: there is no momentum on the server, and no proximal variant. weight_decay does not change a_i.

Pitfalls: with ``local_steps`` all clients take the same number of steps, and this is FedAvg. The weights a p_i / a_i do
not sum to 1: applied to models instead of to their changes, as in fluke, they also scale w. FedLab takes p_i = 1/S and
multiplies by N/S.

Diagnostics: effective_steps, a.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from engine.core.devices import sent
from engine.core.params import SharedParams, broadcast, map_params
from engine.core.registry import ALGORITHMS, NoOptions
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Shared, Task
from engine.training.local import local_sgd
from engine.training.roles import OneGlobalModel


class Hparams(NoOptions):
    """None."""


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "fednova",
    title="FedNova",
    paper="Wang et al., NeurIPS 2020",
    family="Baselines",
    style=Style(hue="dark grey", dash="longdash", symbol="hourglass"),
    privacy=("sample",),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedNova(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if task.training.local_steps is not None:
            task.note("fednova with local_steps: all clients take equally many, so this is fedavg; set local_epochs")
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        received = broadcast(state.global_params, cohort.size)
        local = local_sgd(task, received, cohort)
        lengths = path_lengths(sent(cohort.plan.steps, task.device, torch.float64), task.training.momentum)
        per_step = cohort.weights / lengths  # p_i / a_i
        arrived = task.channel.deliver(local.params, received, cohort, per_step / per_step.sum(), num_extra=1)
        if not arrived.size:
            return state, Diagnostics(local.loss, local.gradient_evaluations)
        mean = task.channel.combine(arrived, state.global_params, cohort)
        shares = cohort.weights[arrived.rows].double()
        mean_length = shares @ lengths[arrived.rows] / shares.sum()  # a
        longer = (mean_length * per_step[arrived.rows].sum() / shares.sum()).to(task.dtype)
        new = State(map_params(lambda w, m: w + longer * (m - w), state.global_params, mean))
        return new, Diagnostics(local.loss, local.gradient_evaluations, {"effective_steps": mean_length})

    def shared(self, state: State) -> Shared:
        w = state.global_params
        return Shared(down=(w,), up=(w, {"a": next(iter(w.values())).new_zeros(())}))


def path_lengths(steps: Float[Tensor, "S"], momentum: float) -> Float[Tensor, "S"]:
    """a_i: the sum of the factors with which the gradients of all steps enter w_i - w, over lr."""
    if not momentum:
        return steps
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
