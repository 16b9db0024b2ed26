"""A map of the clients' models, animated over the rounds."""

import pandas as pd
import streamlit as st

from app.charts import client_map
from app.charts.plot.palette import is_presenting
from app.components import page
from app.data import queries
from app.data.true_contexts import are_groups
from app.inside.analysis import findings
from app.inside.view import RunView
from app.state import url_state, widgets
from app.wording import duration, number, plural
from engine.core.findings import Findings

TRAILS = {"off": "off", "on": "on"}
MAX_DIFFERENCE = 1e-3  # of a replay on another machine, beyond which it is not the same run


def clients_on_a_map(view: RunView, cells: pd.DataFrame) -> None:
    """The analysis if it is done, otherwise its button and cost."""
    st.header("Whose models are alike?", anchor=False)
    spent = queries.scalar_series([view.run], ["seconds"])["value"].sum()
    found = findings(
        view,
        "client_map",
        {},
        verb="Map client models",
        cost=f"Retrains the run, {plural(view.run.round, 'round')}, which took {duration(spent)}.",
    )
    if found is not None:
        drawn(view, cells, found)


@url_state.fragment
def drawn(view: RunView, cells: pd.DataFrame, found: Findings) -> None:
    contexts = view.partition.get("contexts")
    table = client_map.data(found.arrays, cells, contexts, view.malicious)
    by, trails = "cluster" if len(cells) else "context", False
    with st.container(horizontal=True, vertical_alignment="bottom", key="map_controls"):
        if len(cells) and are_groups(contexts):
            by = widgets.switch("Groups", {"cluster": "Clusters", "context": "True contexts"}, "by", "cluster")
        if not is_presenting():
            trails = widgets.switch("Trails", TRAILS, "trails", "off") == "on"
    drawn_table = table if are_groups(contexts) else table.assign(context="")
    centers = client_map.shared(found.arrays, table)
    page.finding_chart(
        client_map.figure(drawn_table, centers, found.arrays, by=by, at=view.round, trails=trails),
        table,
        client_map.finding(drawn_table, found.arrays, by=by, at=view.round),
        key="client_map",
        name="client-map",
        title="Personalized models in one plane",
        also=ending(found.values["difference"]) + (" Hollow: malicious." if view.malicious else ""),
    )


def ending(difference: float) -> str:
    """Whether the recomputed rounds are those of the run."""
    if not difference:
        return "The recomputed rounds end exactly at the stored models."
    if difference <= MAX_DIFFERENCE:
        return f"The recomputed rounds end at the stored models up to rounding ({number(difference, 2)})."
    return (
        "Caution: the code, the data or the machine differ, so the recomputed rounds do not end at the stored models "
        f"(relative distance {number(difference, 2)}). Rerun the run to see its own rounds."
    )
