"""Uploads of one run: what was lost, compressed, weighted or made private on the way to the server."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import upload_clients, upload_rounds
from app.charts.plot import figure_cache
from app.charts.upload_rounds import RECORDED
from app.components import page
from app.data import queries
from app.data.averages import mean_of_known
from app.inside.clients import hollow
from app.inside.tab import Tab
from app.inside.view import RunView
from app.state import widgets
from engine.core.vocabulary import DIAGNOSTICS, add_prefix

EPSILON = "privacy.epsilon"  # a total, unlike the other arrays
ARRAYS = {
    "update_norm": "Update norm",
    "update_cosine": "Cosine with the update",
    "aggregator.weight": "Share in the update",
    "arrived": "Arrived",
    "residual_norm": "Not sent yet, norm",
    EPSILON: "ε",
}
MEANING = {
    "update_norm": "The length of what a client sent, before the server combined it; empty: it did not take part.",
    "update_cosine": "1: in the direction of the server's update, −1: against it; empty: it was not combined.",
    "aggregator.weight": "The share of a client's upload in the server's update; 0: it had no part in it.",
    "arrived": "1: the server used its upload; 0: it came late, was dropped, or the client was not sampled.",
    "residual_norm": "The length of what a client left out of its uploads and will add later.",
    EPSILON: "The privacy that a client has spent so far; smaller is more private.",
}


def applies(view: RunView) -> bool:
    """Whether the run recorded anything about its uploads."""
    return bool(recorded(view)) or bool(len(scalars(view)))


def panel(view: RunView) -> None:
    found = recorded(view)
    rounds = upload_rounds.data(pd.concat([scalars(view), over_clients(view, found)], ignore_index=True))
    st.header("What happened to the uploads?", anchor=False)
    left, right = st.columns(2, gap="large") if found and len(rounds) else (st.container(), st.container())
    with left:
        if len(rounds):
            by_round(view, rounds)
    with right:
        if found:
            by_client(view, found)


TAB = Tab("Uploads", order=55, panel=panel, moves_with_rounds=True, applies=applies)


def by_round(view: RunView, table: pd.DataFrame) -> None:
    page.finding_chart(
        figure_cache.figure(upload_rounds.figure, table, view.round),
        table,
        upload_rounds.finding(table),
        key="upload_rounds",
        name="uploads-by-round",
        title="Uploads by round",
        also="Norms and cosines are means over clients.",
    )


def by_client(view: RunView, found: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    name = widgets.pick("Show", {name: ARRAYS[name] for name in found}, "upload", next(iter(found)))
    rounds, values = found[name]
    is_total = name == EPSILON
    cells = upload_clients.data(rounds, values, is_total)
    page.finding_chart(
        figure_cache.figure(upload_clients.figure, cells, view.round, ARRAYS[name], view.malicious, is_total),
        cells,
        upload_clients.finding(values, ARRAYS[name], view.malicious, is_total),
        key="upload_clients",
        name=f"uploads-{name.replace('.', '-')}",
        title=f"{ARRAYS[name]} of each client",
        also=f"{MEANING[name]}{hollow(view)}",
    )


def recorded(view: RunView) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """name -> (rounds [R], values [R, N]) of the arrays of ARRAYS that the run has, if not all of it is 0."""
    series = {name: queries.client_series(view.run.id, f"{DIAGNOSTICS}.{name}") for name in ARRAYS}
    return {
        name: own for name, own in series.items() if len(own[0]) and own[1].ndim == 2 and np.nan_to_num(own[1]).any()
    }


def scalars(view: RunView) -> pd.DataFrame:
    """[round, name, value] of the scalars in RECORDED that the run has."""
    found = queries.scalar_series([view.run], list(add_prefix(DIAGNOSTICS, dict.fromkeys(RECORDED))))
    return found.assign(name=found["name"].str.removeprefix(f"{DIAGNOSTICS}."))[["round", "name", "value"]]


def over_clients(view: RunView, found: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> pd.DataFrame:
    """[round, name, value]: means over benign clients, and over malicious ones where there are any."""
    parts = [pd.DataFrame(columns=["round", "name", "value"])]
    for name, (rounds, values) in found.items():
        parts += [pd.DataFrame({"round": rounds, "name": n, "value": v}) for n, v in _lines(view, name, values)]
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else parts[0]


def _lines(view: RunView, name: str, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The lines of ``upload_rounds.PANELS`` that an array [R, N] has."""
    if name == "arrived":
        return [(name, np.nansum(values, axis=1))]
    if name == EPSILON:
        rows = [row[np.isfinite(row)] for row in values]
        ends = np.array([(row.max(), np.median(row)) if len(row) else (np.nan, np.nan) for row in rows])
        return [("largest_epsilon", ends[:, 0]), ("median_epsilon", ends[:, 1])]
    malicious = values[:, list(view.malicious)]
    if name == "aggregator.weight":
        of_all = np.maximum(values.sum(axis=1), 1.0)  # weights of each cluster sum to 1
        return [("malicious_weight", malicious.sum(axis=1) / of_all)] if view.malicious else []
    means = mean_of_known(view.benign(values))
    _, _, kind = name.partition("update_")
    if not view.malicious or not kind:
        return [(name, means)]
    return [(f"benign_{kind}", means), (f"malicious_{kind}", mean_of_known(malicious))]
