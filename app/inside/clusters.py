"""Clusters of one run: who is with whom, who moves, do they find the true contexts, and how alike are the models?"""

import numpy as np
import pandas as pd
import streamlit as st

from app import address, queries
from app.charts import (
    cluster_agreement,
    cluster_raster,
    cluster_sankey,
    cluster_sizes,
    kmeans_cost,
    model_distance,
    transitions,
)
from app.components import page
from app.inside.cluster_map import clients_on_a_map
from app.inside.cluster_number import how_many_clusters
from app.inside.cluster_splits import splitting
from app.inside.view import RunView
from app.wording import plain

STEPS = {"round": "the round before", "evaluated": "the evaluated round before", "first": "the first round"}


def applies(view: RunView) -> bool:
    """Whether the method has clusters, or the data has contexts that a map of the clients may show."""
    return bool(len(queries.clusters(view.run.id)[0])) or view.partition.get("contexts") is not None


def panel(view: RunView) -> None:
    cells = cells_of(view)
    if cells.empty:
        st.caption(plain(f"{view.method} has no clusters: each client is on its own, or all share one model."))
    else:
        settling(view, cells)
        if cells["cluster"].nunique() > 1:
            movement(view, cells)
            agreement(view, cells)
        splitting(view)
        cost_of_clustering(view)
        number_of_clusters(view)
    clients_on_a_map(view, cells)


def settling(view: RunView, cells: pd.DataFrame) -> None:
    st.header("Do the clusters settle?", anchor=False)
    finding = cluster_raster.finding(cells)
    known = " Letters are clusters, numbers true contexts." if cells["ari"].notna().any() else ""
    page.chart(
        cluster_raster.figure(cells, view.round), cluster_raster.memberships(cells), key="raster", name="clusters",
        alt=finding, title="Cluster of each client, round by round", caption=finding + known,
    )  # fmt: skip


def movement(view: RunView, cells: pd.DataFrame) -> None:
    """The step to the slider's round as a matrix, and the whole way as bands."""
    rounds = cells["round"].unique()
    if len(rounds) < 2:
        return
    st.header("Who moves where?", anchor=False)
    after = int(rounds[max(1, int(np.searchsorted(rounds, view.round, side="right")) - 1)])
    earlier = before(view, rounds, after)
    left, right = st.columns(2)
    with left:
        table = transitions.data(cells, earlier, after)
        finding = transitions.finding(table, earlier, after)
        page.chart(
            transitions.figure(table, earlier, after), table, key="transitions", name="transitions", alt=finding,
            title="Where the members of each cluster were", caption=f"{finding} Columns add up to 100 %.",
        )  # fmt: skip
    with right:
        ways = cluster_sankey.data(cells, cluster_sankey.stops(rounds, after))
        finding = cluster_sankey.finding(ways)
        page.chart(
            cluster_sankey.figure(ways, after), ways, key="sankey", name="cluster-ways", alt=finding, caption=finding,
            title="The clients' way",
        )  # fmt: skip


def before(view: RunView, rounds: np.ndarray, after: int) -> int:
    """The round that the step to ``after`` begins in; the reader chooses how far back."""
    evaluated = view.rounds[(view.rounds >= rounds[0]) & (view.rounds < after)]
    begins = {"round": int(rounds[rounds < after][-1]), "first": int(rounds[0])}
    if len(evaluated):
        begins["evaluated"] = int(evaluated[-1])
    steps = {name: title for name, title in STEPS.items() if name in begins}
    if len(evaluated) and begins["evaluated"] == begins["round"]:
        del steps["evaluated"]
    return begins[address.switch("Since", steps, "since", "round")]


def agreement(view: RunView, cells: pd.DataFrame) -> None:
    """Sizes, and the true contexts where they are known."""
    found = cluster_agreement.data(cells)
    if found.empty:
        st.header("How large are they?", anchor=False)
        sizes(view, cells)
        st.caption("The true contexts of these clients are not known, so the clusters cannot be held against them.")
        return
    st.header("Are they the right ones?", anchor=False)
    left, right = st.columns(2)
    with left:
        finding = cluster_agreement.finding(found)
        page.chart(
            cluster_agreement.figure(found, view.run.algorithm, view.round), found, key="cluster_agreement",
            name="agreement", alt=finding, title="Agreement with the true contexts", caption=finding,
        )  # fmt: skip
    with right:
        sizes(view, cells)


def sizes(view: RunView, cells: pd.DataFrame) -> None:
    table = cluster_sizes.data(cells)
    finding = cluster_sizes.finding(table)
    page.chart(
        cluster_sizes.figure(table, view.round), table, key="cluster_sizes", name="cluster-sizes", alt=finding,
        title="Clients in each cluster", caption=finding,
    )  # fmt: skip


def cost_of_clustering(view: RunView) -> None:
    """For methods that cluster models by k-means: how far these are apart, and what the k-means takes."""
    series = queries.scalar_series([view.run.id], [*kmeans_cost.NAMES, "diagnostics.model_distance"])
    if series.empty:
        return
    st.header("How far apart are the models?", anchor=False)
    left, right = st.columns(2)
    distance, cost = model_distance.data(series), kmeans_cost.data(series)
    with left:
        finding = model_distance.finding(distance)
        page.chart(
            model_distance.figure(distance, view.run.algorithm, view.round), distance, key="model_distance",
            name="model-distance", alt=finding, title="Distance between what clients send", caption=finding,
        )  # fmt: skip
    with right:
        finding = kmeans_cost.finding(cost)
        page.chart(
            kmeans_cost.figure(cost, view.run.algorithm, view.round), cost, key="kmeans_cost", name="k-means",
            alt=finding, title="The server's k-means", caption=finding,
        )  # fmt: skip


@st.fragment
def number_of_clusters(view: RunView) -> None:
    if len(queries.client_series(view.run.id, "diagnostics.capacity")[0]):
        st.header("Why this many?", anchor=False)
        how_many_clusters(view.run.id, view.round)


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
