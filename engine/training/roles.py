"""Roles that many methods have in common: which models exist, which are used and which are sent.

A method inherits the role that fits its state and overrides what differs. The roles hold no data.
"""

from typing import Any

from engine.core.params import broadcast, row
from engine.federation.batches import Cohort
from engine.task import Predictor, Shared, Task
from engine.training.clustering import best_fitting


class OneGlobalModel:
    """One model for all clients and newcomers: ``state.global_params`` is sent both ways."""

    def personalized(self, state: Any, task: Task) -> Predictor:
        return Predictor(state.global_params, is_per_client=False)

    def global_model(self, state: Any, task: Task) -> Predictor | None:
        return Predictor(state.global_params, is_per_client=False)

    def shared(self, state: Any) -> Shared:
        return Shared(down=(state.global_params,), up=(state.global_params,))

    def adapted(self, state: Any, newcomers: Cohort, task: Task) -> Predictor:
        return Predictor(state.global_params, is_per_client=False)


class PersonalModels:
    """A model for each client, ``state.personal_params``, and the global one, ``state.global_params``."""

    def personalized(self, state: Any, task: Task) -> Predictor:
        return Predictor(state.personal_params, is_per_client=True)

    def global_model(self, state: Any, task: Task) -> Predictor | None:
        return Predictor(state.global_params, is_per_client=False)

    def shared(self, state: Any) -> Shared:
        return Shared(down=(state.global_params,), up=(state.global_params,))


class SplitModels:
    """Body and head: ``state.shared_params`` is sent, and ``state.personal_params`` is kept by its client."""

    def personalized(self, state: Any, task: Task) -> Predictor:
        return joined(state, state.personal_params, task)

    def global_model(self, state: Any, task: Task) -> Predictor | None:
        return None

    def shared(self, state: Any) -> Shared:
        return Shared(down=(state.shared_params,), up=(state.shared_params,))


class ClusterModels:
    """One model for each cluster of clients: ``state.contexts``, of which each client gets its own."""

    def personalized(self, state: Any, task: Task) -> Predictor:
        return Predictor(state.contexts.of_clients, is_per_client=True)

    def global_model(self, state: Any, task: Task) -> Predictor | None:
        return Predictor(state.contexts.of_clients, is_per_client=True)

    def shared(self, state: Any) -> Shared:
        omega = row(state.contexts.models, 0)
        return Shared(down=(omega,), up=(omega,))

    def adapted(self, state: Any, newcomers: Cohort, task: Task) -> Predictor:
        return Predictor(best_fitting(task, state.contexts.models), is_per_client=True)


def joined(state: Any, own: dict[str, Any], task: Task) -> Predictor:
    """Each client's own part [N, ...] on the shared one, body before head."""
    parts = broadcast(state.shared_params, task.num_clients) | own
    return Predictor({n: parts[n] for n in task.model.names}, is_per_client=True)
