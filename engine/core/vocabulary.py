"""The names of what a run records, identical in the engine, the database, exports and the app.

Arrays of a round:

    personalized.accuracy, personalized.loss          [N]  each client's own test set (NaN: no test samples)
    global.accuracy, global.loss                      [N]  absent without a global model
    personalized.val_accuracy, personalized.val_loss  [N]  with ``partition.val_fraction`` > 0
    personalized.common_accuracy, ..._loss            [N]  on the common test set (dataset option ``common_test``)
    personalized.total_error, global.total_error      [N]  squared distance to the true model, on synthetic data
    train_loss                                        [N]  NaN for clients outside the cohort
    unseen.accuracy, unseen.loss                      [U]  last round: the adapted models of held-out clients
    diagnostics.<name>                                any shape

With ``evaluation.on: val`` there are only validation arrays, and no client summaries.

Scalars of a round: the costs and ``diagnostics.<name>``; in evaluated rounds also the client summaries
``personalized.mean`` ... ``global.cv`` (``engine/metrics``), in the last round also ``unseen.mean`` ... ``unseen.cv``.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args

Status = Literal["queued", "running", "paused", "done", "failed", "cancelled", "diverged"]  # also in storage/records.py
Ended = Literal["done", "diverged", "failed", "cancelled"]
ENDED: tuple[Ended, ...] = get_args(Ended)

ModelKind = Literal["personalized", "global"]
MODEL_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
When = Literal["last", "best"]  # which round; engine.metrics.best_round_score decides on the best
ModelsFile = Literal["model-last", "model-best"]
MODELS_OF: dict[When, ModelsFile] = {"last": "model-last", "best": "model-best"}  # kinds of artifacts

UNSEEN = "unseen"  # clients that never trained; only if some were held out
DIAGNOSTICS = "diagnostics"

COUNTS = ("bytes_up", "bytes_down", "gradient_evaluations")  # whole numbers
COSTS = (*COUNTS, "seconds")

T = TypeVar("T")


def add_prefix(prefix: str, values: Mapping[str, T]) -> dict[str, T]:
    """``mean`` -> ``personalized.mean``, for every name."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def select_prefix(prefix: str, values: Mapping[str, T]) -> dict[str, T]:
    """The values under a prefix, without it: ``personalized.mean`` -> ``mean``."""
    return {n.removeprefix(f"{prefix}."): value for n, value in values.items() if n.startswith(f"{prefix}.")}


def summary_at(summary: Mapping[str, Any] | None, model: str, when: When = "last") -> Mapping[str, Any]:
    """The client summaries of a run's last or best round, for the best also its ``round``; may be empty."""
    summary = summary or {}
    return (summary if when == "last" else summary.get("best") or {}).get(model) or {}


def megabytes(costs: Any) -> Any:
    """The megabytes sent, both ways, in a mapping or table of costs: a number, an array or a column."""
    return (costs["bytes_up"] + costs["bytes_down"]) / 1e6
