"""The panel on the number of clusters, for methods that optimize it: both terms of the criterion, and their weight."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.charts import cluster_count
from app.components.shown import Shown, with_finding
from app.data import queries
from app.state.choice import Choice
from app.wording import number
from storage import RunRecord


@dataclass(frozen=True)
class ClusterNumber:
    """The terms of e(K) in the round ``solved``, which optimized K, and the choice of their weight."""

    capacity: np.ndarray
    spread: np.ndarray
    used: float
    chosen: int
    solved: int
    weight: Choice

    def figure(self, mu: float) -> Shown:
        terms = cluster_count.data(self.capacity, self.spread, mu)
        return with_finding(
            cluster_count.figure(terms, self.chosen),
            terms,
            cluster_count.finding(terms, mu),
            key="cluster_count",
            name="number-of-clusters",
            title="Number of clusters chosen by the heuristic",
            also=f"The run used μ = {number(self.used, 4)} and chose K = {self.chosen} (round {self.solved}).",
            hint="The slider does not retrain.",
        )


def of_run(run: RunRecord, until: int | None = None) -> ClusterNumber | None:
    """The values of the last round, or of the last not after ``until``, that optimized K; None if none did."""
    weights, numbers = _recorded(run, "mu"), _recorded(run, "K_hat")
    if weights.empty:
        return None
    earlier = weights.loc[:until]
    solved = int(earlier.index[-1] if len(earlier) else weights.index[0])
    capacity, spread = (_terms(run, name, solved) for name in ("capacity", "cost"))
    if capacity is None or spread is None or solved not in numbers:
        return None
    used = float(weights[solved])
    words = {f"{mu:.4g}": f"μ = {number(mu)}" for mu in sorted({used, *cluster_count.weights_around(used)})}
    words[f"{used:.4g}"] += ", the run's"
    weight = Choice("Weight of the spread", words, "mu", f"{used:.4g}")
    return ClusterNumber(capacity, spread, used, int(numbers[solved]), solved, weight)


def _recorded(run: RunRecord, name: str) -> pd.Series:
    """round -> value."""
    return queries.scalar_series([run], [f"diagnostics.{name}"]).set_index("round")["value"]


def _terms(run: RunRecord, name: str, solved: int) -> np.ndarray | None:
    """A term for K = 1, 2, ..., up to the number of uploads that arrived, which differs between rounds."""
    return queries.store().metrics.array_at(run.id, f"diagnostics.{name}", solved)
