"""Clusters of one run: members, changes, agreement with the true contexts, and distances between models."""

from typing import Protocol

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts import (
    cluster_agreement,
    cluster_raster,
    cluster_sankey,
    cluster_sizes,
    kmeans_cost,
    model_distance,
    transitions,
)
from app.charts.plot import figure_cache
from app.components import page, terms
from app.data import queries
from app.data.true_contexts import are_groups
from app.inside import cluster_number
from app.inside.cluster_map import clients_on_a_map
from app.inside.cluster_splits import splitting
from app.inside.tab import Tab
from app.inside.view import RunView
from app.state import url_state, widgets

STEPS = {"round": "previous round", "evaluated": "previous evaluated round", "first": "first round"}


def applies(view: RunView) -> bool:
    """Whether the method has clusters, or the data has groups of clients that a map may show."""
    return bool(len(queries.clusters(view.run.id)[0])) or are_groups(view.partition.get("contexts"))


def panel(view: RunView) -> None:
    cells = cells_of(view)
    if cells.empty:
        terms.caption(f"{view.method} has no clusters: clients train alone or share one model.")
    else:
        settling(view, cells)
        if cells["cluster"].nunique() > 1 and cells["moved"].any():
            movement(view, cells)
            agreement(view, cells)
        splitting(view)
        cost_of_clustering(view)
        number_of_clusters(view)
    clients_on_a_map(view, cells)


TAB = Tab("Clusters", order=20, panel=panel, moves_with_rounds=True, applies=applies)


def settling(view: RunView, cells: pd.DataFrame) -> None:
    st.header("Do the clusters settle?", anchor=False)
    known = "Letters are clusters, numbers true contexts." if cells["ari"].notna().any() else ""
    page.finding_chart(
        figure_cache.figure(cluster_raster.figure, cells, view.round),
        cluster_raster.memberships(cells),
        cluster_raster.finding(cells),
        key="raster",
        name="clusters",
        title="Cluster of each client, round by round",
        also=known,
    )


def movement(view: RunView, cells: pd.DataFrame) -> None:
    """The step to the slider's round as a matrix, and all changes as bands."""
    rounds = cells["round"].unique()
    if len(rounds) < 2:
        return
    st.header("Which clients change cluster?", anchor=False)
    after = int(rounds[max(1, int(np.searchsorted(rounds, view.round, side="right")) - 1)])
    earlier = before(view, rounds, after)
    left, right = st.columns(2)
    with left:
        table = transitions.data(cells, earlier, after)
        page.finding_chart(
            figure_cache.figure(transitions.figure, table, earlier, after),
            table,
            transitions.finding(table, earlier, after),
            key="transitions",
            name="transitions",
            title="Previous clusters of each cluster's members",
            also="Columns add up to 100 %.",
        )
    with right:
        ways = cluster_sankey.data(cells, cluster_sankey.stops(rounds, after))
        page.finding_chart(
            figure_cache.figure(cluster_sankey.figure, ways, after),
            ways,
            cluster_sankey.finding(ways),
            key="sankey",
            name="cluster-ways",
            title="Cluster changes over time",
        )


def before(view: RunView, rounds: np.ndarray, after: int) -> int:
    """The round that the step to ``after`` starts from, as the reader chooses."""
    evaluated = view.rounds[(view.rounds >= rounds[0]) & (view.rounds < after)]
    begins = {"round": int(rounds[rounds < after][-1]), "first": int(rounds[0])}
    if len(evaluated):
        begins["evaluated"] = int(evaluated[-1])
    steps = {name: title for name, title in STEPS.items() if name in begins}
    if len(evaluated) and begins["evaluated"] == begins["round"]:
        del steps["evaluated"]
    return begins[widgets.switch("Since", steps, "since", "round")]


def agreement(view: RunView, cells: pd.DataFrame) -> None:
    """Sizes, and the true contexts where they are known."""
    found = cluster_agreement.data(cells)
    if found.empty:
        st.header("Cluster sizes", anchor=False)
        sizes(view, cells)
        if view.partition.get("contexts") is None:
            why = "The true contexts of these clients are unknown, so the clusters cannot be compared with them."
        else:
            why = "Nearly every client has its own context, so there are no true groups to compare the clusters with."
        terms.caption(why)
        return
    st.header("Do they match the true contexts?", anchor=False)
    left, right = st.columns(2)
    with left:
        over_rounds(
            view, cluster_agreement, found, "cluster_agreement", "agreement", "Agreement with the true contexts"
        )
    with right:
        sizes(view, cells)


def sizes(view: RunView, cells: pd.DataFrame) -> None:
    table = cluster_sizes.data(cells)
    page.finding_chart(
        figure_cache.figure(cluster_sizes.figure, table, view.round),
        table,
        cluster_sizes.finding(table),
        key="cluster_sizes",
        name="cluster-sizes",
        title="Clients in each cluster",
    )


def cost_of_clustering(view: RunView) -> None:
    """Draw the distances between models and the cost of k-means, for methods that cluster models by it."""
    series = queries.scalar_series([view.run], [*kmeans_cost.NAMES, "diagnostics.model_distance"])
    series = series.dropna(subset=["value"])  # a run that diverged has none in the end
    if "diagnostics.model_distance" not in set(series["name"]):
        return
    st.header("How far apart are the models?", anchor=False)
    left, right = st.columns(2)
    distance, cost = model_distance.data(series), kmeans_cost.data(series)
    with left:
        over_rounds(
            view, model_distance, distance, "model_distance", "model-distance", "Distance between client uploads"
        )
    with right:
        over_rounds(view, kmeans_cost, cost, "kmeans_cost", "k-means", "The server's k-means")


class OverRounds(Protocol):
    """A chart over the rounds, in the color of its method and with a mark at one round."""

    def figure(self, df: pd.DataFrame, algorithm: str, at: int) -> go.Figure: ...

    def finding(self, df: pd.DataFrame) -> str: ...


def over_rounds(view: RunView, chart: OverRounds, table: pd.DataFrame, key: str, name: str, title: str) -> None:
    figure = figure_cache.figure(chart.figure, table, view.run.algorithm, view.round)
    page.finding_chart(figure, table, chart.finding(table), key=key, name=name, title=title)


@url_state.fragment
def number_of_clusters(view: RunView) -> None:
    if (found := cluster_number.of_run(view.run, view.round)) is not None:
        st.header("Why this many clusters?", anchor=False)
        page.show(found.figure(float(found.weight.slide())))


def cells_of(view: RunView) -> pd.DataFrame:
    """The cells of the raster; none for a method without clusters."""
    if not len(queries.clusters(view.run.id)[0]):
        return pd.DataFrame(columns=["round", "client", "letter"])
    return _cells(queries.store().url, view.run.id, view.run.round, view.partition.get("contexts"))


@st.cache_data(show_spinner=False, max_entries=20)
def _cells(url: str, run_id: int, last_round: int, contexts: list[int] | None) -> pd.DataFrame:
    """Clusters are matched round by round, which takes a while for long runs."""
    rounds, labels = queries.clusters(run_id)
    return cluster_raster.data(rounds, labels, None if contexts is None else np.array(contexts))
