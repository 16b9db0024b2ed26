"""Models in two parts, body and head, of which one travels and the other stays with its client."""

from collections.abc import Iterable

from torch import Tensor

from engine.errors import Unsupported
from engine.task import Task


def part(params: dict[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """The tensors of the given names, stacked or not: ``part(params, task.model.body)``."""
    return {n: params[n] for n in names}


def require_body(task: Task, method: str) -> None:
    """Raises Unsupported for a model that is a head alone."""
    if not task.model.body:
        raise Unsupported(
            f"{method} needs a body apart from the head, and this model has none (mlr and logistic are a head alone); "
            "use model: dnn or cnn"
        )
