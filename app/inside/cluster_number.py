"""The panel on the number of clusters, for methods that optimize it: both terms of the criterion, and their weight."""

from dataclasses import dataclass

import numpy as np

from app.charts import cluster_count
from app.components import page
from app.components.shown import Shown, with_finding
from app.data import queries
from app.inside.view import at_round
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


def how_many_clusters(run: RunRecord, until: int | None = None) -> None:
    """Draws e(K) with a slider for the weight of its second term, where the run optimized K."""
    if (found := of_run(run, until)) is not None:
        page.show(found.figure(float(found.weight.slide())))


def of_run(run: RunRecord, until: int | None = None) -> ClusterNumber | None:
    """The values of the last round, or of the last not after ``until``, that optimized K; None if none did."""
    at, capacity = queries.client_series(run.id, "diagnostics.capacity")
    if not len(at):
        return None
    _, spread = queries.client_series(run.id, "diagnostics.cost")
    solved = int(max(at[0], until)) if until is not None else int(at[-1])
    used, own = (_recorded(run, name, solved) for name in ("diagnostics.mu", "diagnostics.K_hat"))
    weights = {f"{mu:.4g}": f"μ = {number(mu)}" for mu in sorted({used, *cluster_count.weights_around(used)})}
    weights[f"{used:.4g}"] += ", the run's"
    weight = Choice("Weight of the spread", weights, "mu", f"{used:.4g}")
    return ClusterNumber(
        _row(at, capacity, solved), _row(at, spread, solved), used, int(own), int(_row(at, at, solved)), weight
    )


def _recorded(run: RunRecord, name: str, solved: int) -> float:
    series = queries.scalar_series([run], [name])
    return float(_row(series["round"].to_numpy(), series["value"].to_numpy(), solved))


def _row(rounds: np.ndarray, values: np.ndarray, until: int) -> np.ndarray:
    found = at_round(rounds, values, until)
    assert found is not None  # ``until`` is not before the first of them
    return found
