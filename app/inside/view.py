"""The state that the tabs of a run share: the run, and the round and client in the address."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from app.charts.client_curve import Line
from app.data import queries
from app.data.averages import benign, malicious_of
from app.data.comparison import method_name, run_name
from app.state import url_state
from engine.config.schema import DIAL_KEYS
from engine.core.vocabulary import MODEL_KINDS, ModelKind
from storage import RunRecord

REFERENCES = {"local_train": "LocalTrain", "fedavg": "FedAvg"}  # alone, and one model for all
MAX_REFERENCES = 500  # the newest runs that are searched
SAME_CLIENTS = ("dataset", "partition", "model")  # parts of the configuration; with the split, they give the clients


@dataclass(frozen=True)
class RunView:
    """One run, seen at one round. ``model`` is the one whose numbers are shown."""

    run: RunRecord

    @property
    def method(self) -> str:
        """``CGPFL K=4``."""
        return method_name(self.run.label, self.run.algorithm)

    @property
    def name(self) -> str:
        """``CGPFL K=4, seed 0``."""
        return run_name(self.run)

    @cached_property
    def models(self) -> tuple[ModelKind, ...]:
        """The models that were evaluated; some methods have no global model."""
        return tuple(model for model in MODEL_KINDS if len(self.accuracy(model)[0]))

    @property
    def model(self) -> ModelKind:
        return cast(ModelKind, url_state.value("model", self.models, "personalized"))

    @cached_property
    def partition(self) -> dict[str, Any]:
        """``train_sizes``, ``test_sizes``, ``class_counts`` [N][C], ``contexts``, ``class_names``; may be empty."""
        return queries.partition(self.run.id) or {}

    @property
    def test_sizes(self) -> tuple[int, ...]:
        """[N] test samples of each client; empty where they were not recorded."""
        return tuple(self.partition.get("test_sizes") or ())

    @cached_property
    def malicious(self) -> tuple[int, ...]:
        """The malicious clients, which summaries leave out."""
        return tuple(malicious_of(self.partition))

    def benign(self, values: np.ndarray) -> np.ndarray:
        """[..., N] with NaN for malicious clients."""
        return benign(values, self.malicious)

    @property
    def num_clients(self) -> int:
        return len(self.partition.get("test_sizes", ())) or self.accuracy("personalized")[1].shape[1]

    def accuracy(self, model: ModelKind | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(evaluated rounds [R], accuracy [R, N]) of a model, by default of the one shown; NaN without test samples."""
        return queries.client_series(self.run.id, f"{model or self.model}.accuracy")

    @cached_property
    def rounds(self) -> np.ndarray:
        """[R] the evaluated rounds."""
        return self.accuracy("personalized")[0]

    @property
    def round(self) -> int:
        """The round of the slider: an evaluated one, the last by default."""
        chosen = url_state.value("round", [str(r) for r in self.rounds], "")
        return int(chosen) if chosen else int(self.rounds[-1])

    @property
    def client(self) -> int | None:
        """The client that the address names; None for all of them."""
        chosen = url_state.value("client", [str(i) for i in range(self.num_clients)], "")
        return int(chosen) if chosen else None

    @cached_property
    def references(self) -> dict[str, RunRecord]:
        """LocalTrain and FedAvg on the same clients, if they were run in this or another experiment: by algorithm.

        They have the same data, split, model, seed and training, for any number of rounds. Of several, one that
        reaches the last round of this run comes first, then one with the same dials, a finished one, one of this
        experiment, and the newest.
        """
        algorithms = [name for name in REFERENCES if name != self.run.algorithm]
        others = queries.runs(
            algorithms=algorithms, seeds=[self.run.seed], include_archived=True, limit=MAX_REFERENCES, newest_first=True
        )
        found: dict[str, RunRecord] = {}
        for run in sorted((run for run in others if self._is_comparable(run)), key=self._unlikeness):
            found.setdefault(run.algorithm, run)
        return found

    def _is_comparable(self, other: RunRecord) -> bool:
        """Whether a run has the same clients and training. LocalTrain sends nothing, so its dials may differ."""
        parts = SAME_CLIENTS if other.algorithm == "local_train" else (*SAME_CLIENTS, *DIAL_KEYS)
        is_alike = self._shares(parts, other) and _training(other) == _training(self.run)
        return is_alike and other.split == self.run.split and other.round >= 0 and other.status != "diverged"

    def _unlikeness(self, other: RunRecord) -> tuple[bool, ...]:
        return (
            other.round < self.run.round,
            not self._shares(("evaluation",), other),
            not self._shares(DIAL_KEYS, other),
            other.status != "done",
            other.experiment_id != self.run.experiment_id,
        )

    def _shares(self, parts: Sequence[str], other: RunRecord) -> bool:
        return all(other.config.get(name) == self.run.config.get(name) for name in parts)

    @cached_property
    def reference_lines(self) -> dict[str, Line]:
        """LocalTrain's local models and FedAvg's global one, if they have the same clients: by algorithm."""
        found = {}
        for name, run in self.references.items():
            model: ModelKind = "global" if name == "fedavg" else "personalized"
            rounds, accuracy = queries.client_series(run.id, f"{model}.accuracy")
            if len(rounds) and accuracy.shape[1] == self.num_clients:
                title = method_name(run.label, run.algorithm)
                found[name] = Line(title, name, False, model == "global", rounds, accuracy)
        return found

    def reference_accuracy(self, name: str, round: int) -> np.ndarray | None:
        """[N] accuracies of a reference in a round; None if there is none that was evaluated in it."""
        line = self.reference_lines.get(name)
        return None if line is None else next(iter(line.accuracy[line.rounds == round]), None)


def at_round(rounds: np.ndarray, values: np.ndarray, round: int) -> np.ndarray | None:
    """The row of the last of ``rounds`` that is not after ``round``; None if all are."""
    place = int(np.searchsorted(rounds, round, side="right")) - 1
    return values[place] if place >= 0 else None


def _training(run: RunRecord) -> dict[str, Any]:
    """The training of a run without its number of rounds, which only matters to a cosine schedule."""
    training = run.config.get("training") or {}
    return {n: v for n, v in training.items() if n != "rounds" or training.get("lr_schedule") == "cosine"}
