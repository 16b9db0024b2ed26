"""FedDyn: FedAvg with a local penalty that remembers each client's past drift.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama. Federated Learning Based on Dynamic Regularization. ICLR 2021.
https://arxiv.org/abs/2111.04263, Algorithm 1, written with c_i: the paper's gradient memory is -alpha c_i.

    w_i <- w
    E times, for a batch B:
        w_i <- w_i - lr [grad f_i(w_i; B) + alpha_i (w_i - w + c_i)]   w as received, c_i = 0 at first
    c_i <- c_i + w_i - w
    w   <- mean_i w_i + 1/N sum_j c_j                           mean over the cohort, sum over all N clients

Idea: Where a client has converged, grad f_i(w_i) = -alpha_i (w_i - w + c_i). The penalty moves until all clients agree
on one w, which is then stationary for the mean of their losses: unlike FedAvg, many local steps leave no bias. alpha_i
is alpha; with weights="samples" it is alpha m / (N m_i), m being the samples of all clients, and w is stationary for
the mean over all samples.

When: one model is wanted, and many local steps on different data make FedAvg converge to the wrong point.

Sent: w, both ways. Kept: c_i, one model for each client.

Cost: as FedAvg. The server keeps w and the sum of the c_i.

Newcomers: use w as it is.

Deviations: the authors clip gradients to norm 10 (here ``training.clip_norm``), and also plot the mean of the clients'
models; this is their cloud model.

Pitfalls: c_i never decays, so with few participants w can overshoot: watch drift. A small alpha is not FedAvg: at full
participation the first round moves w by twice the mean change. PFLlib penalizes ||w_i - w|| without the square; FedLab
and FedML build the penalty without a gradient; FL-bench leaves out alpha w_i; fluke has the sign of c_i reversed. A
client whose upload is lost keeps its new c_i, which the server's mean never learns: with drop_out w settles beside the
optimum.

Diagnostics: drift, the norm of the mean c_i that the server keeps.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.core.params import ClientParams, SharedParams, broadcast, each, gather, map_params, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.local import SGD, local_sgd
from engine.training.roles import OneGlobalModel
from engine.training.smoothness import note_if_unstable


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("weights",)

    alpha: float = Field(
        0.01,
        gt=0,
        le=1e6,
        title="α",
        description="Pull of local training toward the received model, corrected for drift; larger = shorter steps.",
        json_schema_extra={"tune": [0.001, 1.0, "log"]},
    )
    weights: Literal["uniform", "samples"] = Field(
        "uniform",
        description="uniform: the same α for all, as in the paper, minimizes the mean loss of the clients. samples: "
        "α m / (N m_i), as in the authors' code, minimizes the loss of all samples.",
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    mean_drift: SharedParams  # of the c_i over all clients
    client_drifts: ClientParams  # c_i


@ALGORITHMS.register(
    "feddyn",
    title="FedDyn",
    paper="Acar et al., ICLR 2021",
    family="Baselines",
    style=Style(hue="grey", dash="dot", symbol="hexagon"),
    privacy=("sample",),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedDyn(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        alphas = self._alphas(task)
        largest = alphas if isinstance(alphas, float) else float(alphas.max())
        note_if_unstable(task, task.training.lr, largest)
        start = task.initial_model()
        none = map_params(torch.zeros_like, start)
        return State(start, none, task.for_clients(none))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        alphas, own = self._alphas(task), gather(state.client_drifts, cohort.clients)
        if isinstance(alphas, Tensor):
            alphas = alphas[cohort.clients]
            drift = {n: c * each(alphas, c) for n, c in own.items()}
        else:
            drift = map_params(lambda c: c * alphas, own)
        received = broadcast(state.global_params, cohort.size)
        local = local_sgd(task, received, cohort, SGD.of(task, prox=(alphas, received), drift=drift))
        moved = {n: c + local.params[n] - received[n] for n, c in own.items()}
        drifts = scatter(state.client_drifts, moved, cohort.clients)
        arrived = task.channel.deliver(local.params, received, cohort, cohort.uniform)
        w, mean_drift = state.global_params, state.mean_drift
        if arrived.size:
            mean, share = task.channel.combine(arrived, w, cohort), arrived.size / task.num_clients
            mean_drift = {n: c + share * (mean[n] - w[n]) for n, c in mean_drift.items()}
            w = map_params(torch.add, mean, mean_drift)
        size = torch.cat([c.flatten() for c in mean_drift.values()]).norm()
        return State(w, mean_drift, drifts), Diagnostics(local.loss, local.gradient_evaluations, {"drift": size})

    def _alphas(self, task: Task) -> float | Float[Tensor, "N"]:
        """alpha_i of all clients, or the number that they have in common."""
        if self.hparams.weights == "uniform":
            return self.hparams.alpha
        return self.hparams.alpha / (task.num_clients * task.weights)
