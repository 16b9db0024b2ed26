"""q-FFL: one model for all, which gives clients with a high loss more weight (solved by q-FedAvg).

Li, Sanjabi, Beirami, Smith. Fair Resource Allocation in Federated Learning. ICLR 2020.
https://arxiv.org/abs/1905.10497, Algorithm 2.

    F_i <- f_i(w)                                               all training data of the client, w as received
    w_i <- w, then E steps of SGD on f_i
    d_i <- (w - w_i) / lr
    h_i <- q F_i^{q-1} ||d_i||^2 + F_i^q / lr
    w   <- w - (sum_i p_i F_i^q d_i) / (sum_i p_i h_i)          p_i = m_i / m over the cohort

Idea: Minimizing the sum of p_i f_i^(q+1) / (q+1) makes the clients' losses more alike: the larger q, the more the worst
clients count; 0 is FedAvg. h_i estimates the smoothness of that objective, so that one learning rate serves for all q.

When: one model is wanted that serves clients more evenly; q sets how evenly.

Sent: w down; F_i^q d_i and h_i up. Kept: nothing.

Cost: one local training as FedAvg, and a forward pass over the training data.

Newcomers: use w as it is.

Deviations: the authors draw clients with probability m_i / m and take plain sums. Here every method has the same,
uniformly drawn cohorts, so p_i is a weight in the sums, and the objective is the same. F_i is f_i + 1e-10, without L2
term, as theirs.

Pitfalls: a larger q also means smaller steps, so compare after convergence. FedLab takes F_i as the sum of the batch
losses during training; FedEM's version keeps a reference to the model that it trains, so its d_i is always 0.

Diagnostics: losses, F_i; weights, the share of each upload in the update (both NaN for clients that did not take part).
"""

from dataclasses import dataclass

from pydantic import Field
from torch import Tensor

from engine.core.params import SharedParams, broadcast, by_client, map_params, squared_distance
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Shared, Task
from engine.training.evaluate import cohort_losses
from engine.training.local import local_sgd
from engine.training.roles import OneGlobalModel

_LEAST_LOSS = 1e-10  # added to F_i, as in the authors' code: F_i^(q-1) is finite where the loss is 0


class Hparams(Options):
    q: float = Field(
        1.0,
        ge=0,
        le=1000,
        description="Weight of clients with a high loss; larger = fairer, 0 is FedAvg.",
        json_schema_extra={"tune": [0.01, 10.0, "log"]},
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "qffl",
    title="q-FFL",
    paper="Li et al., ICLR 2020",
    family="Baselines",
    style=Style(hue="dark grey", dash="dashdot", symbol="cross"),
)
@dataclass(frozen=True)
class QFfl(OneGlobalModel):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.q == 0:
            task.note("qffl with q=0: the same as fedavg")
        return State(task.initial_model())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        q, lr = self.hparams.q, task.training.lr
        received = broadcast(state.global_params, cohort.size)
        losses = cohort_losses(task, state.global_params, cohort) + _LEAST_LOSS
        local = local_sgd(task, received, cohort)
        # All terms are scaled by lr / max F^q: w stays the same, and no power overflows.
        powers = (losses / losses.max()) ** q  # F_i^q
        squared_change = squared_distance(received, local.params).double() / lr  # lr ||d_i||^2
        raw = cohort.weights * powers
        shares = raw / raw.sum()
        steepness = cohort.weights * (q * powers / losses * squared_change + powers)  # p_i h_i
        values: dict[str, float | Tensor] = {
            "losses": by_client(losses, cohort.clients, task.num_clients),
        }
        arrived = task.channel.deliver(local.params, received, cohort, shares, num_extra=1)
        values["weights"] = by_client(arrived.weights, cohort.clients[arrived.rows], task.num_clients)
        if not arrived.size:
            return state, Diagnostics(local.loss, local.gradient_evaluations, values)
        mean = task.channel.combine(arrived, state.global_params, cohort)
        length = (raw[arrived.rows].sum() / steepness[arrived.rows].sum()).to(task.dtype)
        new = State(map_params(lambda w, m: w + length * (m - w), state.global_params, mean))
        return new, Diagnostics(local.loss, local.gradient_evaluations, values)

    def shared(self, state: State) -> Shared:
        w = state.global_params
        return Shared(down=(w,), up=(w, {"h": next(iter(w.values())).new_zeros(())}))
