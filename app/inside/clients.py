"""Clients: the accuracy of each by round, their distribution in one round, and links to a single client."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts import client_heat_map, ecdf
from app.charts.plot import figure_cache
from app.charts.plot.palette import is_presenting
from app.components import page, terms
from app.data.averages import malicious_of
from app.data.column_heads import Head, Heads, in_percent
from app.data.glossary import definition
from app.data.true_contexts import are_groups
from app.inside import client
from app.inside.tab import Tab
from app.inside.view import REFERENCES, RunView, at_round
from app.wording import MISSING, decimals, names, plural
from app.wording import clients as in_words
from storage import RunRecord

KEY = "client_table"
HEADS: Heads = {
    "train": Head("Training samples"),
    "test": Head("Test samples"),
    "labels": Head("Classes held"),
    "context": Head("True context"),
    "malicious": Head("Malicious"),
    "accuracy": in_percent("Accuracy"),
    "over_local_train": Head("Gain vs. LocalTrain", decimals=2),
    "over_fedavg": Head("Gain vs. FedAvg", decimals=2),
}


def panel(view: RunView) -> None:
    st.header("Which clients benefit?", anchor=False)
    rounds, accuracy = view.accuracy()
    now = at_round(rounds, accuracy, view.round)
    if now is None or not np.isfinite(accuracy).any():
        st.info("No client has test samples, so there is no accuracy to show.")
        return
    left, right = st.columns([3, 2], gap="large")
    with left:
        over_rounds(view, rounds, accuracy)
    with right:
        spread(view, now)
    if not is_presenting():
        listing(view, now)
    client.panel(view, now)


TAB = Tab("Clients", order=10, panel=panel, moves_with_rounds=True, of_one_model=True)


def over_rounds(view: RunView, rounds: np.ndarray, accuracy: np.ndarray) -> None:
    cells = client_heat_map.data(rounds, accuracy, view.client, view.test_sizes)
    key = f"client_map_{view.client}"  # another client, a fresh selection
    shown, tested = cells["client"].nunique(), int(np.isfinite(accuracy).any(axis=0).sum())
    left_out = f" {shown} of {plural(tested, 'client')}, evenly by rank." if shown < tested else ""
    page.chart(
        figure_cache.figure(client_heat_map.figure, cells, view.round, view.client, view.malicious),
        cells,
        key=key,
        name="clients-over-rounds",
        title=f"Accuracy of each client, {view.model} model",
        alt=client_heat_map.finding(accuracy[-1], view.test_sizes, view.malicious),
        caption=f"Sorted by final accuracy, highest on top.{left_out}{hollow(view)}",
        hint="Click a row to open the client.",
        on_select=lambda: take_point(key, cells),
    )


def hollow(view: RunView) -> str:
    """What a hollow mark means, where there is one."""
    return " Hollow circle: malicious, left out of summaries." if view.malicious else ""


def spread(view: RunView, now: np.ndarray) -> None:
    """The distribution in the chosen round, next to LocalTrain and FedAvg in the same round. Benign clients only."""
    now = view.benign(now)
    others = reference_accuracies(view)
    sizes = view.test_sizes
    beside = [
        _clients(REFERENCES[name], view.references[name], view.benign(values), sizes) for name, values in others.items()
    ]
    steps = ecdf.data(pd.concat([_clients(view.method, view.run, now, sizes), *beside]))
    if steps.empty:
        st.info(f"No client has a finite accuracy in round {view.round}, so their distribution is empty.")
        return
    client = view.client
    its_own = float(now[client]) if client is not None and np.isfinite(now[client]) else None
    also = f"; beside it {names(reference_words(view, name) for name in others)}, with the same seed" if others else ""
    page.chart(
        figure_cache.figure(stairs, steps, client, its_own),
        steps,
        key="client_spread",
        name="clients-at-a-round",
        alt=client_heat_map.finding(now, view.test_sizes, view.malicious),
        title=f"Share of clients at or below an accuracy, round {view.round}",
        caption=f"{in_words(int(np.isfinite(now).sum()), bool(view.malicious))}, {view.model} model{also}.",
    )


def stairs(steps: pd.DataFrame, client: int | None, accuracy: float | None) -> go.Figure:
    """The distribution, with a line at the ``accuracy`` of the client that is open."""
    fig = ecdf.figure(steps)
    if accuracy is not None:
        ecdf.mark(fig, accuracy, f"client {client}")
    return fig


def listing(view: RunView, now: np.ndarray) -> None:
    """All clients as a table; a selected row is opened below."""
    references = reference_accuracies(view)
    table = client_rows(view.partition, now, references)
    absent = [REFERENCES[name] for name in REFERENCES if name not in references and name != view.run.algorithm]
    key = f"{KEY}_{view.client}"
    st.subheader("All clients", anchor=False)
    st.dataframe(
        table if are_groups(view.partition.get("contexts")) else table.drop(columns="context", errors="ignore"),
        hide_index=True,
        key=key,
        placeholder=MISSING,
        height=page.table_height(len(table), 320),
        on_select=lambda: take_row(key, table),
        selection_mode="single-row",
        column_config=columns(view.test_sizes),
        alt=f"All clients, {view.model} model, round {view.round}",
    )
    caption = f"{view.model.capitalize()} model, round {view.round}; gains in points; select a row to open the client."
    if absent:
        caption += (
            f" No {names(absent)} run with {view.run.seeds_in_words} and these settings to compare with in this round."
        )
    terms.caption(caption)
    page.files(table, key="clients", name="clients", caption=caption, heads=HEADS)


def client_rows(partition: dict[str, Any], now: np.ndarray, references: dict[str, np.ndarray]) -> pd.DataFrame:
    """[client, train, test, labels, context, accuracy, over_<reference> ...]; accuracies and gains in percent."""
    num_clients = len(now)
    table = pd.DataFrame({"client": np.arange(num_clients)})
    for part in ("train", "test"):
        if sizes := partition.get(f"{part}_sizes"):
            table[part] = list(sizes)
    if counts := partition.get("class_counts"):
        table["labels"] = (np.asarray(counts) > 0).sum(axis=1)
    if partition.get("contexts") is not None:
        table["context"] = list(partition["contexts"])
    if malicious := malicious_of(partition):
        table["malicious"] = np.isin(table["client"], malicious)
    table["accuracy"] = 100 * now.astype(float)
    for name, values in references.items():
        table[f"over_{name}"] = 100 * (now.astype(float) - values)
    return table


def reference_accuracies(view: RunView) -> dict[str, np.ndarray]:
    """[N] for LocalTrain and FedAvg in the round shown, where they ran on the same clients."""
    known = {name: view.reference_accuracy(name, view.round) for name in REFERENCES}
    return {name: values.astype(float) for name, values in known.items() if values is not None}


def reference_words(view: RunView, name: str) -> str:
    """``LocalTrain``, or ``LocalTrain (run 12 of “baselines”)`` where it is of another experiment."""
    run = view.references[name]
    elsewhere = run.experiment_id != view.run.experiment_id
    return REFERENCES[name] + (f" (run {run.id} of “{run.experiment_name}”)" if elsewhere else "")


def columns(test_sizes: Sequence[int]) -> dict[str, Any]:
    """The columns of the table, with as many decimals as the client with the fewest test samples supports."""
    config = st.column_config
    digits = decimals(min((n for n in test_sizes if n), default=None))
    gain: dict[str, Any] = {"format": f"%+.{digits}f"}
    return {
        "client": config.NumberColumn("Client", width="small"),
        "train": config.NumberColumn("Training samples"),
        "test": config.NumberColumn("Test samples"),
        "labels": config.NumberColumn("Classes held"),
        "context": "True context",
        "malicious": config.CheckboxColumn("Malicious"),
        "accuracy": config.ProgressColumn("Accuracy, %", format=f"%.{digits}f", min_value=0, max_value=100),
        "over_local_train": config.NumberColumn(
            "Gain vs. LocalTrain", help=f"Gain in points. {definition('Learning alone')}", **gain
        ),
        "over_fedavg": config.NumberColumn(
            "Gain vs. FedAvg", help=f"Gain in points over its global model. {definition('FedAvg')}", **gain
        ),
    }


def take_point(key: str, cells: pd.DataFrame) -> None:
    """The client of the row that was clicked."""
    points = st.session_state[key]["selection"]["points"]
    if points:
        client.open_client(int(cells.loc[cells["row"] == round(points[0]["y"]), "client"].iloc[0]))


def take_row(key: str, table: pd.DataFrame) -> None:
    rows = st.session_state[key]["selection"]["rows"]
    client.open_client(int(table["client"].iloc[rows[0]]) if rows else None)


def headline(view: RunView) -> str:
    """The finding of the run in its last round, and how many clients would do better alone."""
    now = view.benign(view.accuracy("personalized")[1][-1])
    found = client_heat_map.finding(now, view.test_sizes, view.malicious)
    alone = view.reference_accuracy("local_train", int(view.rounds[-1]))
    return found if alone is None else f"{found} {better_alone(now, alone, bool(view.malicious))}".rstrip()


def better_alone(now: np.ndarray, alone: np.ndarray, are_benign: bool = False) -> str:
    """``3 of 20 clients would do better alone (LocalTrain).``; NaN in ``now`` for clients that are not counted.

    Empty if no client is counted.
    """
    known = np.isfinite(now) & np.isfinite(alone)
    better, clients = int((alone > now)[known].sum()), int(known.sum())
    if not clients:
        return ""
    everyone = in_words(clients, are_benign)
    who = f"All {everyone}" if better == clients else f"{better or 'None'} of {everyone}"
    return f"{who} would do better alone (LocalTrain)."


def _clients(name: str, run: RunRecord, accuracy: np.ndarray, test_sizes: Sequence[int]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run": run.id,
            "method": name,
            "algorithm": run.algorithm,
            "seed": run.seed,
            "client": np.arange(len(accuracy)),
            "accuracy": accuracy.astype(float),
            "test_size": test_sizes or np.nan,
        }
    )
