"""The panel on splits of CFL's clusters: the norms of updates and their thresholds."""

import numpy as np
import streamlit as st

from app.charts import cluster_splits
from app.components import page
from app.data import queries
from app.data.column_heads import Head
from app.inside.view import RunView

NORMS = ("mean_update_norm", "max_update_norm")


def splitting(view: RunView) -> None:
    """Draw the panel, if the method records these norms."""
    given = view.run.hparams
    if not {"eps1", "eps2", "warmup"} <= given.keys():
        return
    rounds = queries.clusters(view.run.id)[0].tolist()
    mean, largest = (_by_round(queries.store().url, view.run.id, name, tuple(rounds)) for name in NORMS)
    eps1, eps2, warmup = float(given["eps1"]), float(given["eps2"]), int(given["warmup"])
    table = cluster_splits.data(mean, largest, eps1, eps2)
    if table.empty:
        return
    st.header("When does a cluster split?", anchor=False)
    page.finding_chart(
        cluster_splits.figure(table, eps1, eps2, view.round),
        table,
        cluster_splits.finding(table, eps1, eps2, warmup),
        key="cluster_splits",
        name="splits",
        title="Update norms and their thresholds",
        also="A cluster splits when its mean update is below ε₁, some update is above ε₂, and more than two of its "
        "clients take part.",
        heads={
            "mean": Head("Shortest mean update"),
            "largest": Head("Longest update"),
            "met": Head("Both met in one cluster"),
        },
    )


@st.cache_data(show_spinner=False, max_entries=20)
def _by_round(url: str, run_id: int, name: str, rounds: tuple[int, ...]) -> dict[int, np.ndarray]:
    """An array whose length grows with the clusters, so that it cannot be read in one piece."""
    found = {at: queries.store().metrics.array_at(run_id, f"diagnostics.{name}", at) for at in rounds}
    return {at: values for at, values in found.items() if values is not None}
