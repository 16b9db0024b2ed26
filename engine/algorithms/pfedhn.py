"""pFedHN: one network at the server generates every client's model from an embedding of that client.

Shamsian, Navon, Fetaya, Chechik. Personalized Federated Learning using Hypernetworks. ICML 2021.
https://arxiv.org/abs/2103.04628, Algorithm 1.

    w_i,0 <- h(v_i; psi)                                        all parameters of client i's model
    w_i,E <- E steps of SGD on f_i from w_i,0
    G_i   <- J_i^T (w_i,0 - w_i,E)                              J_i the Jacobian of h(v_i; psi) by psi
    psi   <- psi - hn_lr mean_i G_i                             uniform, over the cohort
    v_i   <- v_i - hn_lr K_i^T (w_i,0 - w_i,E)                  K_i the Jacobian by v_i

Idea: Clients share the network that generates models, not a model. The embeddings learn which clients are similar, and
psi what they have in common. A client's local training gives the direction in which its model should change, and the
chain rule carries it to psi and v_i.

When: clients differ in a few ways that an embedding can describe, and the server has ample memory.

Sent: w_i down, its change up; psi, however large, never does. Kept: nothing; the server holds the embeddings.

Cost: one local training a round; bytes as FedAvg. The server holds (hidden + 1) numbers for each parameter of the
model, and one backward pass a round reads them all.

Newcomers: an embedding that starts at the clients' mean takes 5 server steps, each after a local training, with psi
frozen; the model is what psi then emits.

Deviations: the paper has one client a step; with more, psi takes the mean, as in PLGU (Qu et al.), and each v_i takes
its own product. Server steps are plain gradient steps (the released code adds momentum and decay). The norm that is
clipped is that of psi's and all v_i's steps together. PLGU names 3 hidden layers in its text and 5 in D.2.

Pitfalls: the sign: w_i,0 - w_i,E points uphill, so the server subtracts (PLGU prints the opposite). The models are
those of psi after the server's step, not what clients trained. The paper's hn_lr is for thousands of rounds with
momentum; over tens of rounds it hardly moves, try 0.1. The hypernetwork generates the start, so model.init has no
part.
"""

from dataclasses import dataclass

from jaxtyping import Float
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
    send_changes,
    train_emitted,
)


class Hparams(HypernetworkOptions):
    pass


@dataclass(frozen=True)
class State:
    psi: SharedParams
    embeddings: Float[Tensor, "N d"]  # v_i


@ALGORITHMS.register(
    "pfedhn",
    title="pFedHN",
    paper="Shamsian et al., ICML 2021",
    family="Hypernetworks",
    style=Style(hue="amber", dash="solid", symbol="hexagram"),
    privacy=("sample",),
    at_evaluation=(),
    averages=False,
)
@dataclass(frozen=True)
class PFedHn(EmittedModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        return State(*initial_server(task, self.hparams))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        rows = state.embeddings[cohort.clients]
        change, trained = train_emitted(task, state.psi, rows, cohort)
        arrived = send_changes(task, change, cohort)
        if not arrived.size:
            return state, Diagnostics(trained.loss, trained.gradient_evaluations)
        pull = pull_back(state.psi, rows[arrived.rows], arrived.params)
        new = State(*descend(state.psi, state.embeddings, pull, cohort.clients[arrived.rows], self.hparams))
        return new, Diagnostics(trained.loss, trained.gradient_evaluations)
