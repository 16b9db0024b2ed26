"""What clients differ in where a setting acts on uploads: their data, devices, and what became of their uploads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from app.data import queries
from app.data.averages import mean_of_known
from storage import RunRecord

Values = np.ndarray | None  # [N]; None where a run does not record it


@dataclass(frozen=True)
class Trait:
    """``title`` is in the control and on the scale, ``words`` in a sentence: clients with ``words``."""

    title: str
    words: str
    of: Callable[[RunRecord], Values]


def malicious(run: RunRecord) -> Values:
    """1 for malicious clients; None if there are none."""
    known = (run.partition or {}).get("malicious")
    return np.asarray(known, float) if known and any(known) else None


def train_size(run: RunRecord) -> Values:
    known = (run.partition or {}).get("train_sizes")
    return np.asarray(known, float) if known else None


def label_distance(run: RunRecord) -> Values:
    """Total variation distance between a client's labels and those of all clients, from 0 to 1."""
    known = (run.partition or {}).get("class_counts")
    if not known or not np.sum(known):
        return None
    counts = np.asarray(known, float)
    own = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.abs(own - counts.sum(axis=0) / counts.sum()).sum(axis=1) / 2


def _mean(name: str) -> Callable[[RunRecord], Values]:
    """The mean over rounds of a diagnostic array."""

    def of(run: RunRecord) -> Values:
        rounds, values = queries.client_series(run.id, f"diagnostics.{name}")
        return mean_of_known(values.T) if len(rounds) and values.ndim == 2 else None

    return of


def _last(name: str) -> Callable[[RunRecord], Values]:
    """The last value of a diagnostic array."""

    def of(run: RunRecord) -> Values:
        rounds, values = queries.client_series(run.id, f"diagnostics.{name}")
        return values[-1].astype(float) if len(rounds) and values.ndim == 2 else None

    return of


TRAITS: Mapping[str, Trait] = {
    "malicious": Trait("Malicious", "malicious clients", malicious),
    "norm": Trait("Update norm", "larger updates", _mean("update_norm")),
    "weight": Trait("Share in the update", "a larger share in the server's update", _mean("aggregator.weight")),
    "arrived": Trait("Share of rounds that it arrived in", "uploads that arrive more often", _mean("arrived")),
    "speed": Trait("Speed", "faster devices", _last("speed")),
    "labels": Trait("Distance of its labels from all clients'", "labels further from all clients'", label_distance),
    "size": Trait("Training samples", "more training samples", train_size),
    "epsilon": Trait("ε", "a larger ε", _last("privacy.epsilon")),
}
FIRST = {  # what each dial touches
    "attack": ("malicious", "labels"),
    "aggregator": ("norm", "labels"),
    "compression": ("norm", "labels"),
    "system": ("arrived", "speed"),
    "privacy": ("epsilon", "norm", "size"),
}


def known(run: RunRecord, section: str) -> dict[str, np.ndarray]:
    """trait -> its values in this run [N], the ones that this dial touches first."""
    order = dict.fromkeys((*FIRST.get(section, ()), *TRAITS))
    found = {name: TRAITS[name].of(run) for name in order}
    return {name: values for name, values in found.items() if values is not None and np.isfinite(values).any()}
