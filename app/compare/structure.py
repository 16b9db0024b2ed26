"""The panels on what a method does inside: its clusters, its hyper-parameters, and both ends of personalization."""

from typing import cast

import pandas as pd
import streamlit as st

from app import address, queries
from app.charts import cluster_raster, curves_over_seeds, sweep, tradeoff
from app.compare.view import COSTS, View
from app.components import page
from app.inside.cluster_number import how_many_clusters
from app.wording import plain
from engine.registry import ALGORITHMS


@st.fragment
def clustered(view: View, clients: pd.DataFrame) -> None:
    labelled = {
        str(run.id): f"{method.name}, seed {run.seed}"
        for method in view.best_first(clients) for run in method.runs if len(queries.clusters(run.id)[0])
    }  # fmt: skip
    if not labelled:
        return
    st.header("Do the clusters settle?", anchor=False)
    several = (run_id for run_id in labelled if queries.clusters(int(run_id))[1][-1].any())
    run_id = int(address.pick("Clusters of", labelled, "clusters", next(several, next(iter(labelled)))))
    contexts = (queries.partition(run_id) or {}).get("contexts")
    cells = cluster_raster.data(*queries.clusters(run_id), contexts)
    finding = cluster_raster.finding(cells)
    page.chart(
        cluster_raster.figure(cells), cluster_raster.memberships(cells), key="raster", name="clusters", alt=finding,
        title="Cluster of each client, round by round", caption=finding,
    )  # fmt: skip
    how_many_clusters(run_id)


@st.fragment
def swept(view: View, clients: pd.DataFrame) -> None:
    runs = view.with_options(clients)
    found = {name: name.removeprefix("training.") for name in sweep.parameters(runs)}
    if not found:
        return
    parameter = address.value("parameter", found, next(iter(found)))
    rows = sweep.data(_with_own_choice(runs, parameter), parameter)
    symbol, meaning = _parameter(rows, parameter)
    st.header(plain(f"Which {symbol} is best?"), anchor=False)
    if len(found) > 1:
        address.pick("Parameter", found, "parameter", next(iter(found)))
    finding = sweep.finding(rows, symbol)
    page.chart(
        sweep.figure(rows, symbol), rows, key="sweep", name=f"sweep-{parameter}", alt=finding,
        title=f"Accuracy against {symbol}; ★ best, dashed: lowest {view.tail} %",
        caption=f"{finding} {meaning} {view.rule.capitalize()}, whisker: ± over seeds.",
    )  # fmt: skip


@st.fragment
def both_ends(view: View, clients: pd.DataFrame) -> None:
    """The trade-off plane, where every model was also measured on a common test set."""
    everywhere = {run.id: view.on_common_test(run) for method in view.methods for run in method.runs}
    runs = view.with_options(clients).assign(everywhere=lambda runs: runs["run"].map(everywhere))
    known = runs.dropna(subset=["everywhere"])
    if known["method"].nunique() < 2:
        return
    st.header("Fit your own data, or know everybody's?", anchor=False)
    price = address.switch("Size of a mark", COSTS, "size", "megabytes")
    with_costs = known.merge(view.with_costs(clients, view.series())[["run", *COSTS]], on="run")
    swept_one = address.value("parameter", found := sweep.parameters(runs), next(iter(found), ""))
    points = tradeoff.data(with_costs, price, swept_one or None)
    finding = tradeoff.finding(points)
    page.chart(
        tradeoff.figure(points, curves_over_seeds.AXIS_TITLES[cast(curves_over_seeds.Axis, price)]), points,
        key="tradeoff", name="trade-off", alt=finding, title="The trade-off plane",
        caption=f"{finding} Both accuracies are of the {view.rule}; marks are as large as their cost.",
    )  # fmt: skip


def _with_own_choice(runs: pd.DataFrame, parameter: str) -> pd.DataFrame:
    """CGPFL-Heur records ``diagnostics.K_hat``: the K that it found itself."""
    found = queries.scalar_series(list(runs["run"]), [f"diagnostics.{parameter}_hat"])
    last = found.groupby("run")["value"].last() if len(found) else pd.Series(dtype=float)
    return runs.assign(itself=runs["run"].map(last).astype(float))


def _parameter(rows: pd.DataFrame, parameter: str) -> tuple[str, str]:
    """Its symbol, and what the method says of it."""
    for algorithm in rows.loc[rows["value"].notna(), "algorithm"].unique():
        if algorithm in ALGORITHMS:
            for p in ALGORITHMS.get(algorithm).parameters:
                if p.name == parameter:
                    return p.symbol, p.description
    return parameter.removeprefix("training."), ""
