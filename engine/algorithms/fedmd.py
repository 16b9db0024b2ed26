"""FedMD: clients train models of their own and agree on predictions for public samples.

Li, Wang. FedMD: Heterogenous Federated Learning via Model Distillation. 2019. https://arxiv.org/abs/1910.03581,
Algorithm 1.

    z_i     <- logits of theta_i on the round's public samples
    z       <- mean_i z_i                                       over the cohort, uniform
    digest_steps times, for a batch B of the public samples:
        theta_i <- theta_i - lr grad mean_{b,c} (z_i(x_b) - z(x_b))_c^2
    E times, for a batch B of the own data:
        theta_i <- theta_i - lr grad f_i(theta_i; B)

Idea: No model leaves its client. Clients send their logits on samples that everyone has, without labels; the server
averages them, and each client trains its model toward the average before it trains on its own data. So models may
differ in architecture, and what is sent does not grow with them.

When: models must not leave the clients, or differ in architecture. Needs: public samples (partition.public_fraction).

Sent: logits of n public samples, both ways. Kept: theta_i.

Cost: digest_steps more gradients a round than local training, and a forward pass over the n public samples, which
makes a round with few local steps slow; bytes of n C numbers. Which samples are used follows from the seed.

Newcomers: digest the last average from the common start, then a local training.

Deviations: the default is the squared distance; the published code uses the absolute one (loss="mae"), of which the
sign of a rounding error makes a full step. Models here have one architecture and one start, and there is no training on
labels of public samples first. Each round draws its n public samples anew; if there are fewer, all are taken.

Pitfalls: FL-bench appends new public batches every round and digests the first ones only. With one participant the
average is its own logits: this is local_train.

Diagnostics: disagreement, the mean squared distance of the logits to their average; public_bytes in round 1, the size
of the public samples, which does not count as sent.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from engine.backends import Extras, OnFeatures, of_classes
from engine.core.params import ClientParams, broadcast, gather, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.models import Model
from engine.task import Diagnostics, Predictor, Shared, Task
from engine.training.local import Trained, local_sgd
from engine.training.public import AlignmentSet, logits_on, public_bytes, require_public, taught
from engine.training.roles import PersonalModels


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("loss",)

    public_samples: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        title="n",
        description="Public samples of a round; more = a better measure of the models, and more bytes.",
    )
    digest_steps: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="Steps toward the average logits; more = more alike, 0 = learning alone.",
        json_schema_extra={"tune": [1, 50, "intlog"]},
    )
    loss: Literal["mse", "mae"] = Field("mse", description="Distance to the average logits: squared or absolute.")


@dataclass(frozen=True)
class State:
    personal_params: ClientParams  # theta_i
    consensus: Float[Tensor, "n C"]  # z
    round: int  # z is of the public samples of this round; 0 before the first


@ALGORITHMS.register(
    "fedmd",
    title="FedMD",
    paper="Li, Wang, 2019",
    family="Knowledge transfer",
    style=Style(hue="vermilion", dash="dashdot", symbol="hexagon"),
)
@dataclass(frozen=True)
class FedMd(PersonalModels):
    no_feedback: ClassVar[str] = "each round sends predictions for other samples"

    hparams: Hparams

    def init(self, task: Task) -> State:
        size = min(self.hparams.public_samples, require_public(task, "fedmd").num_samples)
        if self.hparams.digest_steps == 0:
            task.note("fedmd with digest_steps=0: nothing is learned from the average, this is local_train")
        consensus = torch.zeros(size, task.data.num_classes, dtype=task.dtype, device=task.device)
        return State(task.initial_clients(), consensus, 0)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        alignment = AlignmentSet.of(task, cohort.round, len(state.consensus))
        models = gather(state.personal_params, cohort.clients)
        uploads = {"logits": logits_on(task, models, alignment)}
        arrived = task.channel.deliver(uploads, None, cohort, cohort.uniform)
        values, cost, consensus, of_round = public_bytes(task, cohort.round), 0, state.consensus, state.round
        if arrived.size:
            consensus = task.channel.combine(arrived, None, cohort)["logits"]
            of_round = cohort.round
            digested = self._digested(consensus, alignment, models, cohort, task)
            models, cost = digested.params, digested.gradient_evaluations
            values["disagreement"] = (arrived.params["logits"] - consensus).square().mean()
        trained = local_sgd(task, models, cohort)
        new = State(scatter(state.personal_params, trained.params, cohort.clients), consensus, of_round)
        return new, Diagnostics(trained.loss, cost + trained.gradient_evaluations, values)

    def _digested(
        self, consensus: Tensor, alignment: AlignmentSet, start: ClientParams, cohort: Cohort, task: Task
    ) -> Trained:
        """The models ``start`` [S, ...] after their steps toward the consensus."""
        h = self.hparams
        targets = consensus.expand(cohort.size, *consensus.shape)
        return taught(task, start, cohort, alignment, h.digest_steps, OnFeatures(partial(_distance, h.loss)), targets)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        scores = {"logits": state.consensus}
        return Shared(down=(scores,), up=(scores,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        start = broadcast(task.initial_model(), newcomers.size)
        if state.round:
            alignment = AlignmentSet.of(task, state.round, len(state.consensus))
            start = self._digested(state.consensus, alignment, start, newcomers, task).params
        return Predictor.of_everyone(local_sgd(task, start, newcomers).params, newcomers)


def _distance(
    loss: str, model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> Tensor:
    """The distance of the logits to the consensus; ``y`` are the places of the samples in it."""
    gap = model.stacked_head_logits(params, features) - of_classes(extras["targets"], y)
    return ((gap.square() if loss == "mse" else gap.abs()).mean(-1) * weight).sum(-1)
