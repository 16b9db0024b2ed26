"""FedOpt: FedAvg whose server takes adaptive steps: FedAdam, FedYogi, FedAdagrad and FedAvgM.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. Adaptive Federated Optimization. ICLR 2021.
https://arxiv.org/abs/2003.00295, Algorithm 2. FedAvgM: Hsu, Qi, Brown. https://arxiv.org/abs/1909.06335.

    w_i <- w, then E steps of SGD on f_i
    D   <- sum_i (m_i / m) w_i - w                              over the cohort
    m   <- beta1 m + (1 - beta1) D                              from m = 0
    v   <- v + D^2                                              adagrad; from v = tau^2, as yogi and adam
    v   <- v - (1 - beta2) D^2 sign(v - D^2)                    yogi
    v   <- beta2 v + (1 - beta2) D^2                            adam
    w   <- w + server_lr m / (sqrt(v) + tau)                    by coordinate
    m   <- beta1 m + D, w <- w + server_lr m                    sgd

Idea: The mean change D of a round is used like a gradient, by an optimizer on the server. Coordinates that rarely
change take larger steps, as in Adam, which helps where gradients are sparse, such as in models of text.

When: one model is wanted, and momentum or adaptive steps on the server may speed it up.

Sent: w, both ways. Kept: nothing.

Cost: as FedAvg. The server keeps w, m and v.

Newcomers: use w as it is.

Deviations: D is weighted by samples, as in the paper's experiments; its Algorithm 2 takes the uniform mean. There is no
bias correction, as in the paper.

Pitfalls: the adaptive servers divide by the size of D, so where |D| is much larger than tau, server_lr alone sets the
size of a step, and a rate that fits one server fits no other. Flower corrects the bias of FedAdam with the exponent
round + 1 and that of FedYogi not at all, and has tau = 1e-9; FL-bench and fluke start v at 0 and take beta2 = 0.999.

Diagnostics: server_update_norm, the norm of D; mean_sqrt_v, the mean of sqrt(v) (adaptive servers only).
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from engine.core.params import SharedParams, broadcast, map_params
from engine.core.registry import ALGORITHMS, Options, Positive
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.local import local_sgd
from engine.training.roles import OneGlobalModel

_SERVER_LR = {"sgd": 1.0, "adagrad": 0.1, "adam": 0.01, "yogi": 0.01}
_BETA1 = {"sgd": 0.9, "adagrad": 0.0, "adam": 0.9, "yogi": 0.9}


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "tau")

    server: Literal["adam", "yogi", "adagrad", "sgd"] = Field(
        "adam", description="The server's optimizer: FedAdam, FedYogi, FedAdagrad, or FedAvgM (sgd)."
    )
    server_lr: Positive | Literal["auto"] = Field(
        "auto",
        title="η_g",
        description="Server's learning rate; larger = faster. auto: adam and yogi 0.01, adagrad 0.1, sgd 1.",
        json_schema_extra={"tune": [0.001, 3.0, "log"]},
    )
    beta1: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = Field(
        "auto",
        title="β₁",
        description="Decay rate of the first moment; larger = longer memory. auto: 0.9, and 0 for adagrad.",
    )
    beta2: float = Field(
        0.99,
        ge=0,
        lt=1,
        title="β₂",
        description="Decay rate of the second moment (adam, yogi); larger = longer memory.",
    )
    tau: float = Field(
        1e-3,
        ge=1e-12,
        le=1e6,
        title="τ",
        description="Added to the root of the second moment, which starts at its square; larger = less adaptive.",
        json_schema_extra={"tune": [1e-5, 0.1, "log"]},
    )

    @property
    def lr(self) -> float:
        return _SERVER_LR[self.server] if self.server_lr == "auto" else float(self.server_lr)

    @property
    def momentum(self) -> float:
        return _BETA1[self.server] if self.beta1 == "auto" else float(self.beta1)


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    mean_update: SharedParams  # m
    mean_square: SharedParams  # v


@ALGORITHMS.register(
    "fedopt",
    title="FedOpt",
    paper="Reddi et al., ICLR 2021",
    family="Baselines",
    style=Style(hue="dark grey", dash="dash", symbol="star"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedOpt(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if (h.server, h.lr, h.momentum) == ("sgd", 1.0, 0.0):
            task.note("fedopt with server: sgd, server_lr=1 and beta1=0: the same as fedavg")
        start = task.initial_model()
        none = map_params(torch.zeros_like, start)
        return State(start, none, map_params(lambda p: torch.full_like(p, h.tau**2), start))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        local = local_sgd(task, broadcast(state.global_params, cohort.size), cohort)
        mean = task.channel.aggregate(local.params, state.global_params, cohort, cohort.weights)
        update = map_params(torch.sub, mean, state.global_params)  # D
        is_lost = mean is state.global_params  # no upload arrived: no step
        new = state if is_lost else self._step(state, update)
        values: dict[str, float | Tensor] = {"server_update_norm": _flat(update).norm()}
        if self.hparams.server != "sgd":
            values["mean_sqrt_v"] = _flat(new.mean_square).sqrt().mean()
        return new, Diagnostics(local.loss, local.gradient_evaluations, values)

    def _step(self, state: State, update: SharedParams) -> State:
        h, b1 = self.hparams, self.hparams.momentum
        new_share = 1.0 if h.server == "sgd" else 1 - b1
        m = map_params(lambda m, d: b1 * m + new_share * d, state.mean_update, update)
        if h.server == "sgd":
            return State(map_params(lambda w, m: w + h.lr * m, state.global_params, m), m, state.mean_square)
        v = map_params(self._square, state.mean_square, update)
        w = map_params(lambda w, m, v: w + h.lr * m / (v.sqrt() + h.tau), state.global_params, m, v)
        return State(w, m, v)

    def _square(self, v: Tensor, update: Tensor) -> Tensor:
        """The next v of one tensor."""
        square, b2 = update.square(), self.hparams.beta2
        match self.hparams.server:
            case "adagrad":
                return v + square
            case "yogi":
                return v - (1 - b2) * square * (v - square).sign()
            case _:
                return b2 * v + (1 - b2) * square


def _flat(params: SharedParams) -> Tensor:
    return torch.cat([p.flatten() for p in params.values()])
