"""The panel on clustered methods: which clients are grouped together, and in how many clusters."""

from collections.abc import Sequence

import streamlit as st

from app.charts import cluster_raster
from app.compare import chosen_clients
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown, with_finding
from app.inside import cluster_number
from app.state.choice import Choice, Choices

HEADING = "Do the clusters settle?"
ASPECT = Choice("Show", {"clients": "Clients", "number": "Number of clusters"}, "aspect", "clients")


def draw(view: View) -> None:
    """The clusters of one run: each client's, or for a method that optimizes their number, why there are this many."""
    if (choice := clustered_run(view)) is None:
        return
    page.section(HEADING)
    with st.container(horizontal=True, vertical_alignment="bottom", key="cluster_controls"):
        run_id = int(choice.pick())
        counted = cluster_number.of_run(view.runs[run_id]) if view.is_stored else None
        is_number = counted is not None and ASPECT.switch() == "number"
    if counted is not None and is_number:
        page.show(counted.figure(float(counted.weight.slide())))
    else:
        page.show(raster(view, run_id, chosen_clients.chosen(view)))


def part(view: View, choices: Choices) -> Part | None:
    if (choice := clustered_run(view)) is None:
        return None
    run_id = int(choice.made_in(choices))
    counted = cluster_number.of_run(view.runs[run_id]) if view.is_stored else None
    found = [raster(view, run_id, chosen_clients.chosen(view, choices))]
    if counted is not None:
        found.append(counted.figure(float(counted.weight.made_in(choices))))
    return Part(HEADING, tuple(found))


def clustered_run(view: View) -> Choice | None:
    """A run with clusters, by default one with more than one of them."""
    grouped = view.source.clustered(list(view.runs))
    labeled = {
        str(run.id): f"{method.name}, {run.seeds_in_words}"
        for method in view.best_first()
        for run in method.runs
        if run.id in grouped
    }
    if not labeled:
        return None
    several = (run_id for run_id in labeled if view.source.clusters(int(run_id))[1][-1].any())
    return Choice("Clusters of", labeled, "clusters", next(several, next(iter(labeled))))


def raster(view: View, run_id: int, clients: Sequence[int]) -> Shown:
    contexts = (view.runs[run_id].partition or {}).get("contexts")
    cells = cluster_raster.data(*view.source.clusters(run_id), contexts)
    return with_finding(
        cluster_raster.figure(cells, chosen=clients),
        cluster_raster.memberships(cells),
        cluster_raster.finding(cells),
        key="raster",
        name="clusters",
        title="Cluster of each client, round by round",
    )
