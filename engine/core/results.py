"""What a run yields, round by round: plain numbers and arrays, no tensors, so that any process may read them.

Array names are dotted paths, the same in storage, in the export and on screen:

    personalized.accuracy, personalized.loss      [N]  each client's own test set (NaN: no test samples)
    global.accuracy, global.loss                  [N]  absent where the method has no global model
    personalized.val_accuracy, global.val_accuracy  [N]  with ``partition.val_fraction`` > 0
    personalized.common_accuracy, ..._loss          [N]  on the common test set (dataset option ``common_test``)
    personalized.total_error, global.total_error    [N]  squared distance to the truth, on generated data
    train_loss                                    [N]  NaN for clients outside the cohort
    unseen.accuracy, unseen.loss                  [U]  last round: each method's adapted models of clients held out
    diagnostics.<name>                            any shape

Scalar names: ``bytes_up``, ``bytes_down``, ``gradient_evaluations``, ``seconds``, ``diagnostics.<name>`` and, in
evaluated rounds, the client summaries ``personalized.mean`` ... ``global.cv`` (``engine/metrics``), in the last one
``unseen.mean`` ... ``unseen.cv`` too.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Status = Literal["queued", "starting", "running", "paused", "done", "failed", "cancelled", "diverged"]


@dataclass(frozen=True)
class RoundResult:
    """One round after aggregation. Round 0 is the untrained state."""

    round: int
    cohort: np.ndarray  # [S] int32, participating clients in ascending order; empty in round 0
    scalars: dict[str, float]
    arrays: dict[str, np.ndarray]
    clusters: np.ndarray | None = None  # [N] int16
    evaluated: bool = True
    diverged: str | None = None  # why this is the last round, e.g. "training loss of client 3 is not finite"


@dataclass(frozen=True)
class UnseenSummary:
    """The clients that are held out of training (``partition.holdout_clients``), U of them."""

    clients: tuple[int, ...]  # their numbers before they were held out
    train_sizes: tuple[int, ...]
    val_sizes: tuple[int, ...]
    test_sizes: tuple[int, ...]
    class_counts: tuple[tuple[int, ...], ...]
    contexts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PartitionSummary:
    """How the data lies among the clients; the ``partition`` of the export."""

    train_sizes: tuple[int, ...]
    val_sizes: tuple[int, ...]
    test_sizes: tuple[int, ...]
    class_counts: tuple[tuple[int, ...], ...]  # [N][C] train + val + test
    contexts: tuple[int, ...] | None = None
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unseen: UnseenSummary | None = None


@dataclass(frozen=True)
class Provenance:
    """Enough to say where a number comes from."""

    versions: dict[str, str]
    device: str
    backend: str
    threads: int
    dataset_fingerprint: str
    code: str
    warnings: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
