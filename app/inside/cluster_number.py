"""Why this many clusters? For a method that optimizes their number: both terms, and a slider for their weight."""

import numpy as np

from app.charts import cluster_count
from app.components import page
from app.data import queries
from app.inside.view import at_round
from app.state import url_state
from app.wording import number
from storage import RunRecord


def how_many_clusters(run: RunRecord, until: int | None = None) -> None:
    """e(K) of the last round that optimized K, or of the last not after ``until``; nothing if none did."""
    at, capacity = queries.client_series(run.id, "diagnostics.capacity")
    if not len(at):
        return
    _, spread = queries.client_series(run.id, "diagnostics.cost")
    solved = int(max(at[0], until)) if until is not None else int(at[-1])
    used, own = (_recorded(run, name, solved) for name in ("diagnostics.mu", "diagnostics.K_hat"))
    weights = {f"{mu:.4g}": f"μ = {number(mu)}" for mu in sorted({used, *cluster_count.weights_around(used)})}
    weights[f"{used:.4g}"] += ", the run's"
    mu = float(url_state.slide("Weight of the spread", weights, "mu", f"{used:.4g}"))
    terms = cluster_count.data(_row(at, capacity, solved), _row(at, spread, solved), mu)
    page.finding_chart(
        cluster_count.figure(terms, int(own)),
        terms,
        cluster_count.finding(terms, mu),
        key="cluster_count",
        name="number-of-clusters",
        title="Number of clusters chosen by the heuristic",
        also=f"The run used μ = {number(used, 4)} and chose K = {own:g} (round {_row(at, at, solved)}). The slider "
        "does not retrain.",
    )


def _recorded(run: RunRecord, name: str, solved: int) -> float:
    series = queries.scalar_series([run], [name])
    return float(_row(series["round"].to_numpy(), series["value"].to_numpy(), solved))


def _row(rounds: np.ndarray, values: np.ndarray, until: int) -> np.ndarray:
    found = at_round(rounds, values, until)
    assert found is not None  # ``until`` is not before the first of them
    return found
