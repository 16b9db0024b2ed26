"""Models in two parts, body and head: one is shared, the other is kept by its client."""

from collections.abc import Iterable

from torch import Tensor, nn

from engine.core.errors import Unsupported
from engine.core.params import ClientParams, SharedParams, broadcast
from engine.federation.batches import Cohort
from engine.task import Task
from engine.training.local import SGD, Trained, local_sgd


def part(params: dict[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """The tensors of the given names, stacked or not: ``part(params, task.model.body)``."""
    return {n: params[n] for n in names}


def require_body(task: Task, method: str) -> None:
    """Raises Unsupported for a model that is a head alone."""
    if not task.model.body:
        raise Unsupported(
            f"{method} needs a body in addition to the head, and this model has none (mlr and logistic have only a "
            "head); use model: dnn or cnn"
        )


def require_linear_head(task: Task, method: str) -> None:
    """Raises Unsupported for a head that is not one linear layer."""
    if type(task.model.module.head) is not nn.Linear:
        raise Unsupported(f"{method} needs a head that is one linear layer; use model: dnn or cnn")


def train_heads(
    task: Task, body: SharedParams, heads: ClientParams, cohort: Cohort, steps: int, lr: float | None = None
) -> Trained:
    """``steps`` of the heads alone, each on the received body, on separate batches; returns the whole models."""
    plan, sgd = task.plan(cohort, "head", steps), SGD.of(task, lr)
    return local_sgd(task, broadcast(body, cohort.size) | heads, cohort, sgd, plan=plan, trained=task.model.head)
