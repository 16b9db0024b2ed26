"""PLGU-GHN: pFedHN whose hypernetwork is stepped at a point uphill, so that no client's direction dominates it.

Qu, Li, Han, Duan, Shen, Chen. How to Prevent the Poor Performance Clients for Personalized Federated Learning?
CVPR 2023, Algorithm 4, equations 22-26.

    w_i,0 <- h(v_i; psi)                                        all parameters of client i's model
    w_i,E <- E steps of SGD on f_i from w_i,0
    g     <- mean_i J_i(psi)^T (w_i,0 - w_i,E)                  J_i the Jacobian of h(v_i; psi) by psi
    eps   <- rho g / ||g||                                      0 where g = 0
    psi   <- psi - hn_lr mean_i J_i(psi + eps)^T (w_i,0 - w_i,E)
    v_i   <- v_i - hn_lr K_i(psi + eps)^T (w_i,0 - w_i,E)       K_i the Jacobian by v_i

Idea: psi holds what clients have in common, and poor clients are those that psi is biased against. The server therefore
takes a sharpness-aware step: it takes the gradient a distance rho uphill along the mean direction. Nothing changes for
the clients.

When: pFedHN fits, but a few clients dominate its hypernetwork.

Sent: w_i down, its change up. Kept: nothing; the server holds psi and the embeddings.

Cost: as pFedHN, with two backward passes of the hypernetwork a round; bytes as FedAvg.

Newcomers: as pFedHN: an embedding that starts at the clients' mean takes 5 server steps, each after a local training,
with psi frozen and not perturbed.

Deviations: the paper prints w_i,E - w_i,0 and subtracts, which would climb; we take the descent direction. It prints
no mean in the step of psi, and one letter for the perturbed and for the new psi; we take the mean, and both products at
psi + eps.

Pitfalls: rho is measured against all of psi, which has (hidden + 1) numbers for each parameter of the model, so the
usual 0.05 is a small push. hn_lr as for pFedHN: over tens of rounds try 0.1.
"""

from dataclasses import dataclass

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.core.params import SharedParams
from engine.core.registry import ALGORITHMS
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Task
from engine.training.hypernetwork import (
    EmittedModels,
    HypernetworkOptions,
    descend,
    initial_server,
    pull_back,
    pull_back_moved,
    send_changes,
    train_emitted,
)


class Hparams(HypernetworkOptions):
    rho: float = Field(
        0.05,
        ge=0,
        le=1e6,
        title="ρ",
        description="Radius of the hypernetwork's perturbation; larger = flatter, 0 is pFedHN.",
        json_schema_extra={"tune": (0.005, 0.5, "log")},
    )


@dataclass(frozen=True)
class State:
    psi: SharedParams
    embeddings: Float[Tensor, "N d"]  # v_i


@ALGORITHMS.register(
    "plgu_ghn",
    title="PLGU-GHN",
    paper="Qu et al., CVPR 2023",
    family="Hypernetworks",
    style=Style(hue="blue", dash="dashdot", symbol="diamond"),
    privacy=("sample",),
    at_evaluation=(),
    averages=False,
)
@dataclass(frozen=True)
class PlguGhn(EmittedModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        if self.hparams.rho == 0:
            task.note("plgu_ghn with rho=0: the same as pfedhn")
        return State(*initial_server(task, self.hparams))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        rows = state.embeddings[cohort.clients]
        change, trained = train_emitted(task, state.psi, rows, cohort)
        arrived = send_changes(task, change, cohort)
        if not arrived.size:
            return state, Diagnostics(trained.loss, trained.gradient_evaluations)
        rows = rows[arrived.rows]
        ascent = pull_back(state.psi, rows, arrived.params)
        length = ascent.norm()
        radius = self.hparams.rho / length.where(length > 0, 1.0)
        pull = pull_back_moved(state.psi, rows, ascent, radius)  # at psi + eps
        new = State(*descend(state.psi, state.embeddings, pull, cohort.clients[arrived.rows], self.hparams))
        return new, Diagnostics(trained.loss, trained.gradient_evaluations)
