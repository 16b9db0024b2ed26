"""What the tabs of one run share: the run, and the round and client in the address."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from app.charts.client_curve import Line
from app.data import queries
from app.data.comparison import method_name, run_name
from app.state import url_state
from engine.core.vocabulary import MODEL_KINDS, ModelKind
from storage import RunRecord

REFERENCES = {"local_train": "LocalTrain", "fedavg": "FedAvg"}  # alone, and one model for all


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
        """LocalTrain and FedAvg with the same clients, initial model and batches, if they were run: by algorithm.

        They have the same experiment and seed; of several, the one trained like this run is used.
        """
        siblings = queries.runs(experiment_ids=[self.run.experiment_id], include_archived=True)
        own = [run for run in siblings if run.seed == self.run.seed and run.round >= 0 and run.id != self.run.id]
        own.sort(key=lambda run: (run.config.get("training") != self.run.config.get("training"), run.status != "done"))
        found: dict[str, RunRecord] = {}
        for run in own:
            if run.algorithm in REFERENCES and run.algorithm != self.run.algorithm:
                found.setdefault(run.algorithm, run)
        return found

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


def at_round(rounds: np.ndarray, values: np.ndarray, round: int) -> np.ndarray | None:
    """The row of the last of ``rounds`` that is not after ``round``; None if all are."""
    place = int(np.searchsorted(rounds, round, side="right")) - 1
    return values[place] if place >= 0 else None
