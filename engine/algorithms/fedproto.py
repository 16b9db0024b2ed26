"""FedProto: each client trains its own model; clients share only the mean features of each class.

Tan, Long, Liu, Zhou, Lu, Jiang, Zhang. FedProto: Federated Prototype Learning across Heterogeneous Clients. AAAI 2022.
https://arxiv.org/abs/2105.00243, Algorithm 1.

    theta_i <- theta_i - lr grad [f_i(theta_i; B) + lam mean_b ||phi_i(x_b) - p_c||^2 / d]     c = y_b
    p_ic    <- mean_j phi_i(x_j)            over all training samples j of class c, after local training
    p_c     <- sum_i m_ic / m_c p_ic        over the participants with class c

Idea: No model parameters are sent, so that models may differ in architecture. Clients send the mean feature of each of
their classes, a prototype, the server averages them class by class, and each client pulls its features toward the
result.

When: models must not leave the clients, or differ in architecture, and no public data are available. Needs: a body
under the head (dnn, cnn); a model without one (mlr) trains locally, with a note, and its prototypes are mean inputs.

Sent: prototypes, both ways. Kept: theta_i.

Cost: one local training a round, and a forward pass over the training data for the prototypes; bytes of a few features
of length d, far below a model's.

Newcomers: a local training from the common start, pulled toward the frozen global prototypes.

Deviations: models here have one architecture and one start. A class without training samples in a round keeps its
prototype, and a class that never had one has no term. By default a client predicts with its own head;
predict="prototype" takes the class with the nearest global prototype, as the paper does: logits are then minus the
squared distances, and a class without a prototype is farther away by 1 than all others.

Pitfalls: the paper's equation for p_c divides by the number of clients once too often. Public code averages prototypes
of batches seen during training; here they are those of the final model. Models with different starts have features that
cannot be averaged in a meaningful way until the term has pulled them together.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from engine.channel import KEPT_BY_CLIENT
from engine.core.params import ClientParams, SharedParams, broadcast, gather, in_client_order, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.models import Model
from engine.task import Diagnostics, Forward, Predictor, Shared, Task
from engine.training.features import training_features_by_class
from engine.training.local import Trained, local_sgd
from engine.training.prototypes import averaged, towards_prototypes


class Hparams(Options):
    lam: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Pull of the features toward the global prototypes; larger = more global, 0 = learning alone.",
        json_schema_extra={"tune": (0.01, 10, "log")},
    )
    predict: Literal["head", "prototype"] = Field(
        "head", description="Classify by the client's own head, or by the nearest global prototype."
    )


@dataclass(frozen=True)
class State:
    prototypes: Float[Tensor, "C d"]  # zero where not known
    is_known: Bool[Tensor, "C"]
    personal_params: ClientParams  # theta_i


@ALGORITHMS.register(
    "fedproto",
    title="FedProto",
    paper="Tan et al., AAAI 2022",
    family="Knowledge transfer",
    style=Style(hue="violet", dash="dash", symbol="bowtie"),
    averages=False,
)
@dataclass(frozen=True)
class FedProto:
    no_feedback: ClassVar[str] = KEPT_BY_CLIENT

    hparams: Hparams

    def init(self, task: Task) -> State:
        if not task.model.body:
            task.note(
                "fedproto with a model without a body: the features are the inputs, which no pull can move; "
                "this is local_train, and the prototypes are mean inputs; use model: dnn or cnn"
            )
        if self.hparams.lam == 0:
            task.note("fedproto with lam=0: no pull toward the prototypes, this is local_train")
        start, classes = task.initial_clients(), task.data.num_classes
        is_known = torch.zeros(classes, dtype=torch.bool, device=task.device)
        nothing = torch.zeros(classes, task.feature_width, dtype=task.dtype, device=task.device)
        return State(nothing, is_known, start)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        trained = self._local(state, gather(state.personal_params, cohort.clients), cohort, task)
        features = training_features_by_class(task, trained.params, cohort.clients)
        num_classes = (features.counts > 0).sum(1)  # each client sends the means of its own classes
        num_values = num_classes * state.prototypes.shape[1]
        prototypes, is_known = averaged(task, features, state.prototypes, state.is_known, cohort, num_values)
        new = State(prototypes, is_known, scatter(state.personal_params, trained.params, cohort.clients))
        one = prototypes[0].nbytes
        diagnostics = Diagnostics(
            trained.loss,
            trained.gradient_evaluations,
            bytes_up=one * int(num_classes.sum()),
            bytes_down=one * cohort.size * int(state.is_known.sum()),
        )
        return new, diagnostics

    def _local(self, state: State, start: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """Local training, pulled toward the prototypes of ``state``; the pull acts on the body only."""
        if self.hparams.lam == 0 or not task.model.body:
            return local_sgd(task, start, cohort)
        received = broadcast({"prototypes": state.prototypes, "is_known": state.is_known}, cohort.size)
        return local_sgd(task, start, cohort, objective=towards_prototypes(self.hparams.lam), extras=received)

    def personalized(self, state: State, task: Task) -> Predictor:
        return self._predictor(state, state.personal_params, task)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None

    def shared(self, state: State) -> Shared:
        prototypes = {"prototypes": state.prototypes[state.is_known]}
        return Shared(down=(prototypes,), up=(prototypes,))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        trained = self._local(state, broadcast(task.initial_model(), newcomers.size), newcomers, task)
        own = in_client_order(trained.params, newcomers.clients)
        return self._predictor(state, own, task)

    def forward(self, model: Model) -> Forward | None:
        """Logits if the nearest prototype decides; None if the head does."""
        if self.hparams.predict == "head":
            return None

        def forward(params: SharedParams, x: Tensor) -> Tensor:
            features, is_known = model.features(params, x), params["is_known"]
            distances = (features[:, None] - params["prototypes"]).square().sum(-1)
            farthest = distances.where(is_known, 0).amax(-1, keepdim=True)
            return -distances.where(is_known, farthest + 1)

        return forward

    def _predictor(self, state: State, personal_params: ClientParams, task: Task) -> Predictor:
        """The clients' models, with the prototypes if these decide."""
        forward = self.forward(task.model)
        known = {"prototypes": state.prototypes, "is_known": state.is_known}
        prototypes_used = {} if forward is None else broadcast(known, len(next(iter(personal_params.values()))))
        return Predictor(personal_params | prototypes_used, is_per_client=True, forward=forward)
