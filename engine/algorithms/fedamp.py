"""FedAMP: each client gets a message of its own, a mixture in which similar clients weigh more.

Huang, Chu, Zhou, Wang, Liu, Pei, Zhang. Personalized Cross-Silo Federated Learning on Non-IID Data. AAAI 2021.
https://arxiv.org/abs/2007.03797, Algorithm 1 (amp) and HeurFedAMP (heur).

    heur: x_ij <- (1 - x_ii) exp(sigma cos(w_i, w_j)) / z_i     z_i the sum over j != i; x_ii is self_weight
    amp:  x_ij <- alpha exp(-||w_i - w_j||^2 / sigma) / sigma   j != i
          x_ii <- 1 - sum_j x_ij                                j != i
    u_i <- sum_j x_ij w_j                                       over the clients that have uploaded
    w_i <- u_i
    E times, for a batch B:
        w_i <- w_i - lr [grad f_i(w_i; B) + pull (w_i - u_i)]

Idea: A single average fits no client where clients are of several kinds. The server keeps the last model of every
client and sends each one a mixture of them, by attention: similar models attract one another, so clients of a kind
cooperate without being clustered.

When: some clients are similar but form no clear groups, and the server can store all their models.

Sent: u_i down, w_i up. Kept: w_i; the server has a copy.

Cost: one local training a round; bytes as FedAvg. The server compares the participants with all known models and mixes
these, which takes participants x known models x parameters operations.

Newcomers: like a client that has not uploaded yet: a message by the similarity of the common start to the models of the
others, and one local training from it, or with start="own" from the common start, pulled toward it.

Deviations: the paper minimizes f_i plus the pull, which has no start; with E steps the start matters, and it is the
message, unless ``start`` says own. Only participants get a message and upload. A client that has not uploaded has
weight 0 in its own message, and while no client has uploaded, all participants get the common start. In amp a row whose
weights of others exceed 1 is scaled to 1. The defaults are not the paper's, which tunes them: sigma 25 (heur) or the
mean squared distance of the known models (amp), alpha sigma / N, self_weight one share of the known models, and a weak
pull, as the message is the start.

Pitfalls: PFLlib builds the pull outside the graph, so that it has no gradient, and never loads u_i: its FedAMP trains
locally. fluke divides by the learning rate instead of alpha. A large sigma (heur) leaves a client only its nearest
neighbor beside its own model, a small one (amp) its own model alone.

Diagnostics: x, the weights [N, N] of the round's messages, in the rows of its participants; up to 1,000 clients.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from engine.channel import KEPT_BY_CLIENT
from engine.core.params import ClientParams, SharedParams, broadcast, each, gather, mixtures, row, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.local import SGD, Trained, local_sgd
from engine.training.roles import PersonalModels
from engine.training.similarity import cosines, mean_squared_distance, squared_distances
from engine.training.smoothness import note_if_unstable

_AUTO_SIGMA = 25.0  # for heur
_MOST_RECORDED = 1000  # clients whose weights are recorded: N^2 numbers a round


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("alpha", "start")

    variant: Literal["heur", "amp"] = Field(
        "heur", description="Weights by the angle between two models (heur), or by their distance (amp)."
    )
    pull: float = Field(
        1e-4,
        ge=0,
        le=1e6,
        title="λ",
        description="Pull of local training toward the message; larger = nearer to the similar clients.",
        json_schema_extra={"tune": [1e-5, 1.0, "log"]},
    )
    sigma: Annotated[float, Field(ge=0, le=1e12)] | Literal["auto"] = Field(
        "auto",
        title="σ",
        description="heur: larger = similar clients weigh more, auto is 25; amp: larger = distant clients weigh more, "
        "auto is the mean squared distance.",
        json_schema_extra={"tune": [1.0, 100.0, "log"]},
    )
    alpha: Annotated[float, Field(gt=0, le=1e12)] | Literal["auto"] = Field(
        "auto", title="α", description="amp: larger = others weigh more; auto is sigma / N."
    )
    self_weight: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = Field(
        "auto",
        description="heur: weight of the client's own model in its message; larger = more personal, auto is one share "
        "of the known models.",
        json_schema_extra={"tune": [0.05, 0.95, "lin"]},
    )
    start: Literal["message", "own"] = Field(
        "message", description="Local training starts from the message, or from the client's own last model."
    )

    @model_validator(mode="after")
    def _amp_divides_by_sigma(self) -> Self:
        if self.variant == "amp" and self.sigma == 0:
            raise ValueError("sigma: 0 with variant amp, which divides by it; use a number above 0, or auto")
        return self


@dataclass(frozen=True)
class State:
    personal_params: ClientParams  # w_i
    uploads: ClientParams  # the last upload of each client, which the server holds
    has_uploaded: Bool[Tensor, "N"]


@ALGORITHMS.register(
    "fedamp",
    title="FedAMP",
    paper="Huang et al., AAAI 2021",
    family="Regularized toward a shared model",
    style=Style(hue="sky", dash="dot", symbol="diamond"),
    privacy=("sample",),
    at_evaluation=(),
    averages=False,
)
@dataclass(frozen=True)
class FedAmp(PersonalModels):
    hparams: Hparams

    @property
    def no_feedback(self) -> str:
        return KEPT_BY_CLIENT if self.hparams.start == "own" else ""

    def init(self, task: Task) -> State:
        h = self.hparams
        if h.pull == 0 and (h.start == "own" or (h.variant == "heur" and h.self_weight == 1)):
            task.note("fedamp with these settings is local_train: nothing of the others reaches a client's model")
        if h.variant == "heur" and h.alpha != "auto":
            task.note("fedamp with variant heur: alpha has no effect; it belongs to variant amp")
        if h.variant == "amp" and h.self_weight != "auto":
            task.note("fedamp with variant amp: self_weight has no effect; it belongs to variant heur")
        note_if_unstable(task, task.training.lr, h.pull)
        never = torch.zeros(task.num_clients, dtype=torch.bool, device=task.device)
        return State(task.initial_clients(), task.initial_clients(), never)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        clients, known = cohort.clients, state.has_uploaded.nonzero()[:, 0]
        last = gather(state.uploads, clients)
        message, x = self._messages(last, gather(state.uploads, known), clients[:, None] == known, task)
        theta = self._train(message, gather(state.personal_params, clients), cohort, task)
        arrived = task.channel.deliver(theta.params, message, cohort, cohort.uniform)
        senders = clients[arrived.rows]
        new = State(
            scatter(state.personal_params, theta.params, clients),
            scatter(state.uploads, arrived.params, senders),
            state.has_uploaded.index_fill(0, senders, True),
        )
        diagnostics = Diagnostics(theta.loss, theta.gradient_evaluations)
        if task.num_clients <= _MOST_RECORDED:
            diagnostics.values["x"] = _of_all_pairs(x, clients, known, task)
        return new, diagnostics

    def _messages(
        self, own: ClientParams, known: ClientParams, is_own: Bool[Tensor, "S K"], task: Task
    ) -> tuple[ClientParams, Float[Tensor, "S K"]]:
        """u_i [S, ...] and its weights, from the clients' ``own`` last uploads; else the common start."""
        start = task.initial_model()
        if not is_own.shape[1]:
            return broadcast(start, len(is_own)), is_own.to(task.dtype)
        weigh = self._by_angle if self.hparams.variant == "heur" else self._by_distance
        others, of_own = weigh(own, known, is_own, task)
        has_uploaded = is_own.any(1)
        total = others.sum(1)
        alone = others / total.where(total > 0, 1)[:, None]  # without an upload of its own, the others have all weight
        x = torch.where(has_uploaded[:, None], others.where(~is_own, of_own[:, None]), alone)
        of_start = (~has_uploaded & (total == 0)).to(task.dtype)
        return {n: p + each(of_start, p) * start[n] for n, p in mixtures(known, x).items()}, x

    def _by_angle(
        self, own: ClientParams, known: ClientParams, is_own: Bool[Tensor, "S K"], task: Task
    ) -> tuple[Float[Tensor, "S K"], Float[Tensor, "S"]]:
        """x_ij of the others and x_ii, as if every client had uploaded."""
        h = self.hparams
        sigma = _AUTO_SIGMA if h.sigma == "auto" else float(h.sigma)
        scores = (sigma * cosines(own, known)).masked_fill(is_own, -torch.inf)
        num_others = (~is_own).sum(1)
        if h.self_weight == "auto":
            of_own = 1 / (num_others.double() + 1)
        else:
            of_own = torch.full_like(scores[:, 0], float(h.self_weight))
        of_own = of_own.where(num_others > 0, 1)
        others = scores.softmax(1).where(num_others[:, None] > 0, 0)
        return (1 - of_own)[:, None] * others, of_own

    def _by_distance(
        self, own: ClientParams, known: ClientParams, is_own: Bool[Tensor, "S K"], task: Task
    ) -> tuple[Float[Tensor, "S K"], Float[Tensor, "S"]]:
        """``_by_angle`` for amp."""
        h, N = self.hparams, task.num_clients
        distances = squared_distances(own, known)
        sigma = mean_squared_distance(known) if h.sigma == "auto" else distances.new_tensor(float(h.sigma))
        falls = (-distances / sigma.where(sigma > 0, 1)).exp().where(sigma > 0, 1)
        share = torch.full_like(sigma, 1 / N) if h.alpha == "auto" else float(h.alpha) / sigma
        others = (share.where(sigma > 0, 1 / N) * falls).masked_fill(is_own, 0)
        total = others.sum(1)
        if bool((total > 1).any()):
            task.note(
                f"fedamp with alpha={h.alpha}, sigma={h.sigma}: the weights of the others add up to more than 1 and "
                "were scaled, so that own models have weight 0; use a smaller alpha"
            )
        return others / total.clamp(min=1)[:, None], (1 - total).clamp(min=0)

    def _train(self, message: ClientParams, own: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """w_i, pulled toward the message."""
        start = message if self.hparams.start == "message" else own
        return local_sgd(task, start, cohort, SGD.of(task, prox=(self.hparams.pull, message)))

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        one = row(state.personal_params, 0)
        return Shared(down=(one,), up=(one,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        start: SharedParams = task.initial_model()
        own, known = broadcast(start, newcomers.size), state.has_uploaded.nonzero()[:, 0]
        is_own = torch.zeros(newcomers.size, len(known), dtype=torch.bool, device=task.device)
        message, _ = self._messages(own, gather(state.uploads, known), is_own, task)
        return Predictor.of_everyone(self._train(message, own, newcomers, task).params, newcomers)


def _of_all_pairs(
    x: Float[Tensor, "S K"], clients: Int[Tensor, "S"], known: Int[Tensor, "K"], task: Task
) -> Float[Tensor, "N N"]:
    """x with a row and a column for every client; rows of clients without a message are NaN."""
    wide = x.new_zeros(len(x), task.num_clients).index_copy(1, known, x)
    return wide.new_full((task.num_clients,) * 2, torch.nan).index_copy(0, clients, wide).to(task.dtype)
