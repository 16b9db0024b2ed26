"""PLGU-LF: keep the layers that differ most, and share layers that are robust where clients differ.

Qu, Li, Han, Duan, Shen, Chen. How to Prevent the Poor Performance Clients for Personalized Federated Learning?
CVPR 2023, Algorithms 1 and 2, equations 4-7.

    xi_il   <- ||theta_il - w_l|| / dim(w_l)                    of layer l; normalized to sum_l xi_il = 1
    theta_il <- w_l                                             except in the D layers with the largest xi_il
    w_i     <- w
    E times, for a batch B:
        g       <- grad f_i(theta_i; B)
        eps_l   <- rho xi_il sign(g_l) |g_l|^(q-1) / (||g||_q^q)^(1/p)   1/p + 1/q = 1
        g~      <- grad f_i(theta_i + eps; B)
        theta_i <- theta_i - lr g
        w_i     <- w_i - lr g~
    w       <- w + mean_i (w_i - w)                             uniform, over the cohort

Idea: Poor clients suffer from shared layers that are biased toward the others. Each client keeps the layers in which
it differs most, and trains the shared model with gradients taken uphill of the client's own model, furthest in
just those layers. What is shared is then good in a whole neighborhood, which no single client's peculiarities can move.

When: the clients served worst matter most, and single layers may stay on the client. Needs: a model with several
layers (dnn, cnn).

Sent: w, both ways. Kept: theta_i.

Cost: two gradients a step, which train both models; bytes as FedAvg.

Newcomers: one participation: theta from the common start takes its universal layers from w and trains for E steps.

Deviations: the paper prints the exponent of the norm as p-1; we take 1/p, which alone gives SAM at p = 2 and is the
paper's own equation 24. Its listing updates theta_i before it perturbs; we perturb the theta_i that g was taken at
(order="listing" does the other). The shared step uses w_i and the gradient at theta_i + eps, as Algorithm 1. A
normalization is part of the layer before it.

Pitfalls: D counts layers, so its meaning depends on the model: dnn has 2, cnn 4, mlr 1. With D = L nothing shared
reaches theta_i. The remarks that D=0 is FedSAM and D=L FedAvg do not follow from Algorithm 1: g~ is taken at theta_i,
and scores that sum to 1 spread rho over the layers.

Diagnostics: layer_scores (xi, client by layer, before training), personal_layers (1 where the client kept it).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.core.params import ClientParams, SharedParams, broadcast, by_client, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import Trained
from engine.training.roles import PersonalModels
from engine.training.sam import layer_scores, lwsam_pair, most_personal, select_layers


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("p", "order")

    D: int = Field(
        5,
        ge=0,
        le=1000,
        description="Layers that stay personal; more = more personal. As many as the model has = learning alone; a "
        "larger number counts as all but one.",
        json_schema_extra={"tune": (0, "layers-1", "int")},
    )
    rho: float = Field(
        0.05,
        ge=0,
        le=1e6,
        title="ρ",
        description="Radius of the perturbation; larger = flatter shared model, 0 = none.",
        json_schema_extra={"tune": (0.005, 0.5, "log")},
    )
    p: float = Field(2.0, gt=1, le=1e6, description="Norm in which the radius is measured; 2 is that of SAM.")
    order: Literal["algorithm", "listing"] = Field(
        "algorithm", description="Where to perturb: at the theta that g was taken at, or (listing) after its step."
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w
    personal_params: ClientParams  # theta_i


@ALGORITHMS.register(
    "plgu_lf",
    title="PLGU-LF",
    paper="Qu et al., CVPR 2023",
    family="Sharpness-aware",
    style=Style(hue="blue", dash="dash", symbol="square"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class PlguLf(PersonalModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        requested, kept, num_layers = self.hparams.D, self._num_personal(task), len(task.model.layers)
        if requested != kept:
            task.note(f"plgu_lf with D={requested}: the model has {num_layers} layers, so D={kept} is used")
        if kept == num_layers:
            task.note(f"plgu_lf with D={kept}, all layers: each personalized model is trained alone")
        if self.hparams.rho == 0:
            task.note("plgu_lf with rho=0: nothing is perturbed, w takes the gradients of the personalized models")
        return State(task.initial_model(), task.initial_clients())

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        own = gather(state.personal_params, cohort.clients)
        theta, w, scores, kept = self._participate(state.global_params, own, cohort, task)
        new = State(
            task.channel.aggregate(w, state.global_params, cohort, cohort.uniform),
            scatter(state.personal_params, theta.params, cohort.clients),
        )
        values: dict[str, float | Tensor] = {
            "layer_scores": by_client(scores, cohort.clients, task.num_clients),
            "personal_layers": by_client(kept, cohort.clients, task.num_clients),
        }
        return new, Diagnostics(theta.loss, theta.gradient_evaluations, values)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        own = broadcast(task.initial_model(), newcomers.size)
        theta, *_ = self._participate(state.global_params, own, newcomers, task)
        return Predictor.of_everyone(theta.params, newcomers)

    def _participate(
        self, w: SharedParams, own: ClientParams, cohort: Cohort, task: Task
    ) -> tuple[Trained, ClientParams, Float[Tensor, "S L"], Float[Tensor, "S L"]]:
        """What clients do in a round: (theta_i, w_i, scores, which layers each keeps)."""
        h, layers, received = self.hparams, task.model.layers, broadcast(w, cohort.size)
        scores = layer_scores(own, received, layers)
        kept = most_personal(scores, self._num_personal(task))
        theta, local = lwsam_pair(
            task,
            select_layers(kept, own, received, layers),
            received,
            cohort,
            scores=scores,
            rho=h.rho,
            p=h.p,
            after_step=h.order == "listing",
        )
        return theta, local, scores, kept

    def _num_personal(self, task: Task) -> int:
        """D, but at least one layer is shared unless D covers all."""
        num_layers = len(task.model.layers)
        return self.hparams.D if num_layers == self.hparams.D else min(self.hparams.D, num_layers - 1)
