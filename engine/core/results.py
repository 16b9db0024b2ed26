"""The results of a run: plain numbers and arrays without tensors, readable by any process.

The names of scalars and arrays are in ``engine/core/vocabulary.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.core.vocabulary import Status


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


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResult:
    """One run with its rounds and status: the input of exports and tables."""

    experiment: str
    algorithm: str
    label: str
    hparams: dict[str, Any]
    seed: int
    status: Status
    rounds: Sequence[RoundResult] = field(repr=False)
    provenance: dict[str, Any] | None = field(default=None, repr=False)
    partition: dict[str, Any] | None = field(default=None, repr=False)
    summary: dict[str, Any] | None = field(default=None, repr=False)
    error: str | None = None
    experiment_id: int | None = None  # distinguishes experiments of the same name
    data_seed: int | None = None  # None: the data are drawn by the seed
    study: dict[str, Any] | None = None  # the run's place in a study


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
    malicious: tuple[bool, ...] | None = None  # where there is an attack; summaries over clients leave them out

    def to_dict(self) -> dict[str, Any]:
        """As ``dataclasses.asdict``, which would copy every count of a million clients."""
        whole = {**vars(self), "unseen": None if self.unseen is None else dict(vars(self.unseen))}
        return {name: value for name, value in whole.items() if name != "malicious" or value is not None}


@dataclass(frozen=True)
class Provenance:
    """The origin of a run's numbers: versions, device, code and data."""

    versions: dict[str, str]
    device: str
    backend: str
    threads: int
    dataset_fingerprint: str
    code: str
    warnings: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
