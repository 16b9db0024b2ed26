"""Algorithms: one file each, with Hparams, State and a class with the methods of ``Algorithm``."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from engine.federation.batches import Cohort
from engine.models import Model
from engine.task import Diagnostics, Forward, Predictor, Shared, Task


class Algorithm(Protocol):
    """The interface of every method. State goes in, new state comes out; ``self`` holds no state."""

    def init(self, task: Task) -> Any:
        """The untrained state. Raises Unsupported for a model or setting that cannot work."""

    def round(self, state: Any, cohort: Cohort, task: Task) -> tuple[Any, Diagnostics]:
        """Server sends, the cohort trains, server aggregates."""

    def personalized(self, state: Any, task: Task) -> Predictor:
        """The model each client would use now."""

    def global_model(self, state: Any, task: Task) -> Predictor | None:
        """The server's model that a client would receive; None if the method has none."""

    def shared(self, state: Any) -> Shared:
        """The models sent to and from one participant in a round."""


@runtime_checkable
class AdaptsToNewcomers(Protocol):
    """The additional interface of methods that make models for clients that never took part."""

    def adapted(self, state: Any, newcomers: Cohort, task: Task) -> Predictor:
        """The model of each client that never took part, adapted by the method's own rule.

        ``task`` has the data and the number of the newcomers, for which ``state`` has no rows. ``newcomers`` is the
        cohort of all of them, with batches. Reads training data only.
        """


@runtime_checkable
class PredictsItsOwnWay(Protocol):
    """The additional interface of methods whose personalized models do not predict as the task's model does."""

    def forward(self, model: Model) -> Forward | None:
        """The ``forward`` of its personalized predictors; None if it equals the model's."""


@runtime_checkable
class SendsUnequally(Protocol):
    """The additional interface of methods whose clients do not all receive what ``shared`` says."""

    def bytes_down(self, state: Any) -> Int[Tensor, "N"]:
        """What each client would receive in the next round."""


def no_feedback(algorithm: Algorithm) -> str:
    """Why there is no error feedback: what compression leaves out is not added to the next upload. Empty if there is.

    Adding it is right where uploads are changes since the last download. Where uploads are about other samples in each
    round, or clients keep what they send, the method has the attribute ``no_feedback`` with the reason.
    """
    return str(getattr(algorithm, "no_feedback", ""))


def stores_outputs(algorithm: Algorithm) -> bool:
    """Whether models predict with stored outputs of their networks, which no longer fit when the weights are changed.

    Such a method has the attribute ``stores_outputs = True``.
    """
    return bool(getattr(algorithm, "stores_outputs", False))


def special_forward(algorithm: Algorithm, model: Model) -> Forward | None:
    """How a method's personalized models predict; None if they predict as the network does."""
    return algorithm.forward(model) if isinstance(algorithm, PredictsItsOwnWay) else None
