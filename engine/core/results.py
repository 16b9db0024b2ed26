"""The results of a run, round by round: plain numbers and arrays without tensors, readable by any process.

Array names are dotted paths, identical in storage, export and app:

    personalized.accuracy, personalized.loss      [N]  each client's own test set (NaN: no test samples)
    global.accuracy, global.loss                  [N]  absent without a global model
    personalized.val_accuracy, global.val_accuracy  [N]  with ``partition.val_fraction`` > 0
    personalized.common_accuracy, ..._loss          [N]  on the common test set (dataset option ``common_test``)
    personalized.total_error, global.total_error    [N]  squared distance to the true model, on synthetic data
    train_loss                                    [N]  NaN for clients outside the cohort
    unseen.accuracy, unseen.loss                  [U]  last round: the adapted models of held-out clients
    diagnostics.<name>                            any shape

Scalar names: ``bytes_up``, ``bytes_down``, ``gradient_evaluations``, ``seconds``, ``diagnostics.<name>``; in evaluated
rounds also the client summaries ``personalized.mean`` ... ``global.cv`` (``engine/metrics``), in the last round also
``unseen.mean`` ... ``unseen.cv``.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Status = Literal["queued", "starting", "running", "paused", "done", "failed", "cancelled", "diverged"]


@dataclass(frozen=True)
class RoundResult:
    """One round, after aggregation. Round 0 is the untrained state."""

    round: int
    cohort: np.ndarray  # [S] int32, participating clients in ascending order; empty in round 0
    scalars: dict[str, float]
    arrays: dict[str, np.ndarray]
    clusters: np.ndarray | None = None  # [N] int16
    evaluated: bool = True
    diverged: str | None = None  # the reason if training stopped here, e.g. "training loss of client 3 is not finite"


@dataclass(frozen=True)
class UnseenSummary:
    """The U clients held out of training (``partition.holdout_clients``)."""

    clients: tuple[int, ...]  # their indices before they were held out
    train_sizes: tuple[int, ...]
    val_sizes: tuple[int, ...]
    test_sizes: tuple[int, ...]
    class_counts: tuple[tuple[int, ...], ...]
    contexts: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PartitionSummary:
    """The data split; the ``partition`` of the export."""

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
    """Everything needed to tell where a number comes from."""

    versions: dict[str, str]
    device: str
    backend: str
    threads: int
    dataset_fingerprint: str
    code: str
    warnings: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
