"""FedEM: every client's data are a mixture of K distributions, with shared models and its own proportions.

Marfoq, Neglia, Bellet, Kameni, Vidal. Federated Multi-Task Learning under a Mixture of Distributions. NeurIPS 2021.
https://arxiv.org/abs/2108.10252, Algorithm 1.

    q_k(x) <- pi_ik exp(-loss of w_k at x) / z(x)               z(x) the sum over k, for all data of client i
    pi_ik  <- mean_x q_k(x)
    w_ik   <- w_k
    E times, for a batch B:
        w_ik <- w_ik - lr grad mean_b q_k(x_b) loss of w_ik at x_b
    w_k    <- sum_i (m_i / m) w_ik                              over the cohort
    p_i(x) <- sum_k pi_ik softmax(w_k(x))                       for use

Idea: A client need not belong to one group. Each sample has a share in every component, larger where that component
explains it better (the E step); components learn from the samples in proportion (the M step). Clients differ only in
how much of each component they use.

When: the data of each client are a mixture of several distributions. Needs: for K > 1 components that do not start at
zero (model.init).

Sent: w_1 to w_K, both ways. Kept: pi_i.

Cost: K local trainings and K passes over the training data a round, and K times FedAvg's bytes. A stored model of a
client has all K components, so those of N clients are K N models.

Newcomers: one E step on the server's components, from equal proportions.

Deviations: the mean over participants; the authors average over all clients, absent ones with the old components. The
q_k are those of the whole round, from the components as received.

Pitfalls: components must start different, or they stay alike. q belongs to a sample: FL-bench matches it to the
batches by the order of the data set, and FederatedScope has one for a whole batch and also weighs the loss by pi. It
is the probabilities that are mixed, not the logits. The loss is divided by the size of the batch, not by the sum of q,
so that a component which explains little also moves little.

Diagnostics: pi (proportions of each client), entropy (of these, in nats; 0 is a single component), clusters (the
component with the largest proportion).
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.func import vmap

from engine.backends import batch_weight
from engine.core.errors import Unsupported
from engine.core.params import ClientParams, SharedParams, broadcast, row
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.models import Model
from engine.task import Diagnostics, Forward, Predictor, Shared, Task
from engine.training.evaluate import sample_losses
from engine.training.local import SGD, Live, Trained, for_each_client

PROPORTIONS = "pi"  # pi_i, stored with a client's parameters for prediction
_TIE = 1e-9  # proportions this close, relatively, are equal: the component with the lowest number wins


class Hparams(Options):
    K: int = Field(
        3,
        ge=1,
        le=10_000,
        description="Number of components; 1 is FedAvg, more = more personal.",
        json_schema_extra={"tune": [2, 8, "intlog"]},
    )


@dataclass(frozen=True)
class State:
    components: ClientParams  # w_k [K, ...]
    pi: Float[Tensor, "N K"]


@ALGORITHMS.register(
    "fedem",
    title="FedEM",
    paper="Marfoq et al., NeurIPS 2021",
    family="Clustered",
    style=Style(hue="olive", dash="dot", symbol="hexagram"),
    privacy=("client",),
)
@dataclass(frozen=True)
class FedEm:
    hparams: Hparams

    def init(self, task: Task) -> State:
        K = self.hparams.K
        if K > 1 and task.model.init == "zeros":
            raise Unsupported(
                f"fedem with K={K} and init: zeros: all components start equal and stay so; use init: default, or K: 1"
            )
        if K == 1:
            task.note("fedem with K=1: one component for all, this is fedavg")
        drawn = [task.initial_model(k) for k in range(K)]
        components = {n: torch.stack([m[n] for m in drawn]) for n in drawn[0]}
        return State(components, self._equal(task))

    def _equal(self, task: Task) -> Float[Tensor, "N K"]:
        K = self.hparams.K
        return torch.full((task.num_clients, K), 1 / K, dtype=task.dtype, device=task.device)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        K, clients = self.hparams.K, cohort.clients
        q, pi = responsibilities(task, state.components, state.pi[clients], clients)
        trained = _maximize(task, state.components, q, cohort)
        by_client = {n: p.unflatten(0, (cohort.size, K)) for n, p in trained.params.items()}
        components = task.channel.aggregate(by_client, state.components, cohort, cohort.weights)
        new = State(components, state.pi.index_copy(0, clients, pi))
        loss = trained.loss.view(cohort.size, K).sum(1)
        values: dict[str, float | Tensor] = {"pi": new.pi, "entropy": torch.special.entr(new.pi).sum(1)}
        return new, Diagnostics(loss, trained.gradient_evaluations, values, _largest(new.pi))

    def personalized(self, state: State, task: Task) -> Predictor:
        return self._predictor(state.components, state.pi, task)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        models = tuple(row(state.components, k) for k in range(self.hparams.K))
        return Shared(down=models, up=models)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        everyone = torch.arange(task.num_clients, device=task.device)
        _, pi = responsibilities(task, state.components, self._equal(task), everyone)
        return self._predictor(state.components, pi, task)

    def forward(self, model: Model) -> Forward:
        """The log of the mixture of the components' probabilities."""

        def forward(params: SharedParams, x: Tensor) -> Tensor:
            components = {n: params[n] for n in model.names}
            log_p = vmap(lambda p: model.logits(p, x))(components).log_softmax(-1)
            return (params[PROPORTIONS].log()[:, None, None] + log_p).logsumexp(0)

        return forward

    def _predictor(self, components: ClientParams, pi: Float[Tensor, "n K"], task: Task) -> Predictor:
        params = broadcast(components, len(pi)) | {PROPORTIONS: pi}
        return Predictor(params, is_per_client=True, forward=self.forward(task.model))


def responsibilities(
    task: Task, components: ClientParams, pi: Float[Tensor, "S K"], clients: Int[Tensor, "S"]
) -> tuple[Float[Tensor, "M K"], Float[Tensor, "S K"]]:
    """The E step: q of the clients' M training samples, client by client, and their new proportions."""
    sizes = task.data.train.sizes[clients]
    owner = torch.repeat_interleave(torch.arange(len(clients), device=task.device), sizes)
    q = (pi.double().log()[owner] - sample_losses(task, components, clients)).softmax(1)
    totals = q.new_zeros(pi.shape).index_add_(0, owner, q)
    return q.to(task.dtype), (totals / sizes[:, None]).to(task.dtype)


def _maximize(task: Task, components: ClientParams, q: Float[Tensor, "M K"], cohort: Cohort) -> Trained:
    """The M step: the components of each participant [S K, ...], all K of a client after one another."""
    K, data = q.shape[1], task.data.train
    ends = data.sizes[cohort.clients].cumsum(0)
    shift = ends - data.offsets[cohort.clients + 1]  # from a place in the training data to one in q
    of_row = {"shift": shift.repeat_interleave(K), "component": torch.arange(K, device=task.device).repeat(cohort.size)}
    start = {n: p.flatten(0, 1) for n, p in broadcast(components, cohort.size).items()}
    sgd, plan = SGD.of(task), cohort.plan.repeat(K)

    def step(c: Live, batch: Batch) -> Tensor:
        assert batch.rows is not None
        shares = q[batch.rows + c.shift[:, None], c.component[:, None]]
        return sgd.step(c, "w", replace(batch, weight=batch_weight(batch) * shares))

    out = for_each_client(task, plan, {"w": start}, step, fixed=of_row)
    return Trained(out.w, out.loss, plan.gradient_evaluations)


def _largest(pi: Float[Tensor, "N K"]) -> Int[Tensor, "N"]:
    """The number of the largest proportion."""
    return (pi >= pi.amax(1, keepdim=True) * (1 - _TIE)).int().argmax(1)
