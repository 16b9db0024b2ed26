"""SCAFFOLD: one model for all, with control variates against the drift of local training.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. SCAFFOLD: Stochastic Controlled Averaging for Federated Learning.
ICML 2020. https://arxiv.org/abs/1910.06378, Algorithm 1, option II.

    w_i <- w
    E times, for a batch B:
        w_i <- w_i - lr [grad f_i(w_i; B) - c_i + c]
    c_i~ <- c_i - c + (w - w_i) / (E lr)
    w   <- w + server_lr mean_i (w_i - w)                       uniform, over the cohort
    c   <- c + S/N mean_i (c_i~ - c_i)                          c_i~ becomes c_i

Idea: Where clients differ, local steps run toward each client's own optimum. Every client stores the mean of its
gradients, c_i, and the server that of all clients, c. Adding c - c_i to each step makes the local path follow the
direction of all clients together.

When: one model is wanted, local training drifts much, and twice the bytes can be sent.

Sent: w and c down, w_i and the change of c_i up. Kept: c_i.

Cost: gradients as FedAvg; twice its bytes, both ways.

Newcomers: use w as it is.

Deviations: E is the client's own number of steps where ``local_epochs`` gives clients different ones.

Pitfalls: c_i is only a mean gradient for plain SGD: with momentum (w - w_i) / (E lr) overstates it. With few
participants in many clients c_i is old when it is used. Weighting the mean by samples is not the paper's method. A
client whose upload is lost keeps its new c_i, which c never learns: with drop_out w settles beside the optimum.

Diagnostics: drift, mean norm of c - c_i over the cohort.
"""

from dataclasses import dataclass

import torch
from pydantic import Field

from engine.core.devices import sent
from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    dot,
    each,
    gather,
    lerp,
    map_params,
    scatter,
)
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Shared, Task
from engine.training.local import SGD, local_sgd
from engine.training.roles import OneGlobalModel


class Hparams(Options):
    server_lr: float = Field(
        1.0,
        gt=0,
        le=1e6,
        title="η_g",
        description="Server's step toward the mean of the clients' models; 1 takes the mean, smaller = slower.",
        json_schema_extra={"tune": (0.1, 3, "log")},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    control: SharedParams  # c
    client_controls: ClientParams  # c_i


@ALGORITHMS.register(
    "scaffold",
    title="SCAFFOLD",
    paper="Karimireddy et al., ICML 2020",
    family="Baselines",
    style=Style(hue="grey", dash="longdash", symbol="triangle-up"),
    privacy=("sample",),
    at_evaluation=(),
    two_uploads=True,
)
@dataclass(frozen=True)
class Scaffold(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if task.training.momentum:
            task.note("scaffold with momentum: the control variates overstate the clients' mean gradients")
        start = task.initial_model()
        none = map_params(torch.zeros_like, start)
        return State(start, none, task.for_clients(none))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        h, own = self.hparams, gather(state.client_controls, cohort.clients)
        received, control = broadcast(state.global_params, cohort.size), broadcast(state.control, cohort.size)
        drift = map_params(torch.sub, control, own)
        local = local_sgd(task, received, cohort, SGD.of(task, drift=drift))
        path = task.training.lr * sent(cohort.plan.steps, task.device, task.dtype)  # E lr
        change = {n: (w - local.params[n]) / each(path, w) - control[n] for n, w in received.items()}
        mean = task.channel.aggregate(local.params, state.global_params, cohort, cohort.uniform)
        moved = task.channel.aggregate(change, None, cohort, cohort.uniform, out_of=task.num_clients)
        new = State(
            lerp(state.global_params, mean, h.server_lr),
            map_params(torch.add, state.control, moved),
            scatter(state.client_controls, map_params(torch.add, own, change), cohort.clients),
        )
        return new, Diagnostics(local.loss, local.gradient_evaluations, {"drift": dot(drift, drift).sqrt().mean()})

    def shared(self, state: State) -> Shared:
        return Shared(down=(state.global_params, state.control), up=(state.global_params, state.control))
