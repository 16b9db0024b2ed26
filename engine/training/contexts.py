"""Personalized models pulled toward the model of their client's context: shared by CGPFL and CGPFL-Heur."""

from typing import Any

from jaxtyping import Int
from torch import Tensor

from engine.core.params import ClientParams, gather, row
from engine.federation.batches import Cohort
from engine.task import Predictor, Shared, Task
from engine.training.clustering import least_loss
from engine.training.evaluate import training_losses
from engine.training.local import Trained, moreau_sgd


class PersonalModelsInContexts:
    """A model for each client, ``state.personal_params``, and one for each context, ``state.contexts``.

    ``state.assigned`` is the context of every client. The hyper-parameters are those of the local loop.
    """

    hparams: Any  # lam, inner_steps, personal_lr and beta

    def local(
        self, state: Any, context: Int[Tensor, "clients"], cohort: Cohort, task: Task
    ) -> tuple[Trained, ClientParams, ClientParams]:
        """theta_i and omega~_i, both from omega_k of the client's ``context``, and these omega_k."""
        h, N = self.hparams, len(state.assigned)
        share = task.training.lr * h.lam if h.beta == "auto" else float(h.beta) * 2 / N
        start = gather(state.contexts, context[cohort.clients])
        theta, omega = moreau_sgd(
            task, start, cohort, lam=h.lam, inner_steps=h.inner_steps, personal_lr=h.personal_lr, outer_share=share
        )
        return theta, omega, start

    def personalized(self, state: Any, task: Task) -> Predictor:
        return Predictor(state.personal_params, is_per_client=True)

    def global_model(self, state: Any, task: Task) -> Predictor | None:
        return Predictor(gather(state.contexts, state.assigned), is_per_client=True)

    def shared(self, state: Any) -> Shared:
        omega = row(state.contexts, 0)
        return Shared(down=(omega,), up=(omega,))

    def adapted(self, state: Any, newcomers: Cohort, task: Task) -> Predictor:
        nearest = least_loss(training_losses(task, state.contexts))
        theta, *_ = self.local(state, nearest, newcomers, task)
        return Predictor.of_everyone(theta.params, newcomers)
