"""PLGU-GRep: FedRep whose shared body is trained to be flat in the layers on which clients disagree.

Qu, Li, Han, Duan, Shen, Chen. How to Prevent the Poor Performance Clients for Personalized Federated Learning?
CVPR 2023, Algorithm 3, equations 9-13.

    head_steps times:
        h_i  <- h_i - lr grad f_i(phi, h_i)                     the body as received
    for one batch B:
        phi_i  <- phi - lr grad f_i(phi, h_i; B)
        xi_il  <- ||phi_il - phi_l|| / dim(phi_l)               of layer l; normalized to sum_l xi_il = 1
        g      <- grad f_i(phi_i, h_i; B)                       by the body alone
        eps_l  <- rho xi_il sign(g_l) |g_l|^(q-1) / (||g||_q^q)^(1/p)   1/p + 1/q = 1
        phi~_i <- phi_i - lr grad f_i(phi_i + eps, h_i; B)
    phi  <- mean_i phi~_i                                       uniform, over the cohort

Idea: FedRep shares one body that may fit some clients at the expense of others. Here the second of two body steps
takes its gradient at a point uphill, furthest in the layers that the first step moved most. So the layers on which
clients disagree become flat, and a client of little weight loses less.

When: FedRep fits, but its shared body serves some clients badly. Needs: a body under the head (dnn, cnn).

Sent: phi, both ways. Kept: h_i.

Cost: head_steps gradients, and three of the body on one batch, independent of local_steps; bytes of the body only.

Newcomers: a head from the common start takes head_steps on the frozen body.

Deviations: the paper defines the scores by phi~_i, which does not exist yet; we take phi_i. Equation 13 prints the
plain gradient; with that nothing would be perturbed, so the step goes along the perturbed one. The exponent of the
norm is 1/p, not p-1 (the paper's own equation 24). A normalization is part of the layer before it.

Pitfalls: training.local_steps is not used, so at equal rounds the body moves two steps where FedRep's moves E. The head
has no part in g, its norm and the scores.

Diagnostics: layer_scores (xi, client by layer of the body).
"""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from engine.core.params import ClientParams, SharedParams, broadcast, by_client, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import part, require_body, train_heads
from engine.training.roles import SplitModels
from engine.training.sam import lwsam_two_steps


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("p",)

    rho: float = Field(
        0.05,
        ge=0,
        le=1e6,
        title="ρ",
        description="Radius of the perturbation of the body; larger = flatter, 0 = none.",
        json_schema_extra={"tune": (0.005, 0.5, "log")},
    )
    head_steps: int = Field(
        5,
        ge=1,
        le=1_000_000,
        description="Steps of the head a round, with the body frozen.",
        json_schema_extra={"tune": (1, 50, "intlog")},
    )
    p: float = Field(2.0, gt=1, le=1e6, description="Norm in which the radius is measured; 2 is that of SAM.")


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # phi
    personal_params: ClientParams  # h_i


@ALGORITHMS.register(
    "plgu_grep",
    title="PLGU-GRep",
    paper="Qu et al., CVPR 2023",
    family="Sharpness-aware",
    style=Style(hue="blue", dash="solid", symbol="circle"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class PlguGrep(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "plgu_grep")
        task.note(
            "plgu_grep: the body takes two steps per round on one batch; local_steps and local_epochs are not used"
        )
        if self.hparams.rho == 0:
            task.note("plgu_grep with rho=0: nothing is perturbed, the body takes plain steps as in fedrep")
        return State(part(task.initial_model(), task.model.body), part(task.initial_clients(), task.model.head))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        h, model = self.hparams, task.model
        own = gather(state.personal_params, cohort.clients)
        heads = train_heads(task, state.shared_params, own, cohort, h.head_steps)
        layers = [names for names in model.layers if set(names) <= set(model.body)]
        bodies, scores = lwsam_two_steps(
            task, heads.params, task.same_batches(cohort, 1), body=model.body, layers=layers, rho=h.rho, p=h.p
        )
        uploads = part(bodies.params, model.body)
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.uniform),
            scatter(state.personal_params, part(heads.params, model.head), cohort.clients),
        )
        loss = heads.loss.lerp(bodies.loss, 2 / (2 + h.head_steps))  # a mean over all steps, two of them the body's
        spent = heads.gradient_evaluations + bodies.gradient_evaluations
        return new, Diagnostics(loss, spent, {"layer_scores": by_client(scores, cohort.clients, task.num_clients)})

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        start = broadcast(part(task.initial_model(), task.model.head), newcomers.size)
        heads = train_heads(task, state.shared_params, start, newcomers, self.hparams.head_steps)
        return Predictor.of_everyone(heads.params, newcomers)
