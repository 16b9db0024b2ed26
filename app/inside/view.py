"""What the tabs of one run share: the run, the round and the client that the address names."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from app import address, queries
from app.comparison import method_name
from app.wording import MODELS
from storage import RunRecord


@dataclass(frozen=True)
class RunView:
    """One run, seen at one round. ``model`` is the one whose numbers are shown."""

    run: RunRecord

    @property
    def name(self) -> str:
        """``CGPFL K=4, seed 0``."""
        return f"{method_name(self.run.label, self.run.algorithm)}, seed {self.run.seed}"

    @property
    def model(self) -> queries.Model:
        return cast(queries.Model, address.value("model", MODELS, "personalized"))

    @cached_property
    def partition(self) -> dict[str, Any]:
        """``train_sizes``, ``test_sizes``, ``class_counts`` [N][C], ``contexts``, ``class_names``; may be empty."""
        return queries.partition(self.run.id) or {}

    @cached_property
    def rounds(self) -> np.ndarray:
        """[R] the evaluated rounds."""
        return queries.client_series(self.run.id, "personalized.accuracy")[0]

    @property
    def round(self) -> int:
        """The round of the slider: an evaluated one, the last by default."""
        said = address.value("round", [str(r) for r in self.rounds], "")
        return int(said) if said else int(self.rounds[-1])

    @property
    def client(self) -> int | None:
        """The client that the address names; None for all of them."""
        clients = [str(i) for i in range(len(self.partition.get("test_sizes", [])))]
        said = address.value("client", clients, "")
        return int(said) if said else None
