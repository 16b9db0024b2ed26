"""One client: its data, its curve next to LocalTrain and FedAvg, its rank, its errors."""

import numpy as np
import streamlit as st

from app.charts import client_curve, client_data, confusion
from app.charts.plot import figure_cache
from app.components import page
from app.inside import analysis
from app.inside.view import REFERENCES, RunView
from app.state import url_state, widgets
from app.wording import ordinal, percent, plain, plural, signed_points

NUMBER = "client_number"
AGAINST = {"local_train": "over learning alone (LocalTrain)", "fedavg": "against FedAvg's global model"}


def panel(view: RunView, now: np.ndarray) -> None:
    """``now`` [N] are the accuracies at the round shown."""
    st.header("One client", anchor=False)
    chooser(view, now)
    client = view.client
    if client is None:
        st.caption("Select a row in the chart or the table, or choose a client here.")
        return
    finding = standing(view, now, client)
    st.markdown(f"**{plain(finding)}**")
    left, right = st.columns(2, gap="large")
    with left:
        curve(view, client, finding)
    with right:
        own_data(view, client)
    mistakes(view, client)


def chooser(view: RunView, now: np.ndarray) -> None:
    """Any client by number, its neighbors, and shortcuts to the lowest, median and highest."""
    now = view.benign(now)
    ranked = np.argsort(np.where(np.isfinite(now), now, np.inf), kind="stable")[: int(np.isfinite(now).sum())]
    client, last = view.client, view.num_clients - 1
    with st.container(horizontal=True, vertical_alignment="bottom", key="client_controls"):
        numbers = [None, *range(view.num_clients)]
        st.selectbox(
            "Client",
            numbers,
            format_func=lambda i: "none" if i is None else f"client {i}",
            width=150,
            placeholder="none",
            key=widgets.key(NUMBER, client, open_client),
        )
        st.button(
            "Previous",
            key="client_previous",
            on_click=open_client,
            disabled=client in (None, 0),
            args=((client or 0) - 1,),
        )
        st.button(
            "Next",
            key="client_next",
            on_click=open_client,
            disabled=client == last,
            args=(0 if client is None else client + 1,),
        )
        for title, place in (("Lowest", 0), ("Median", len(ranked) // 2), ("Highest", len(ranked) - 1)):
            st.button(
                title,
                key=f"client_{title.lower()}",
                type="tertiary",
                on_click=open_client,
                disabled=not len(ranked),
                args=(int(ranked[place]) if len(ranked) else None,),
            )


def open_client(client: int | None) -> None:
    """Put the client into the address; None closes it."""
    url_state.choose(client=None if client is None else str(client))


def standing(view: RunView, now: np.ndarray, client: int) -> str:
    """``Client 17: 91 % in round 40, 3rd lowest of 40; +3 points over learning alone ...``"""
    if not np.isfinite(now[client]):
        return without_accuracy(view, client)
    samples = view.test_sizes[client] if view.test_sizes else None
    accuracy = percent(float(now[client]), samples=samples)
    who = f"Client {client} (malicious)" if client in view.malicious else f"Client {client}"
    others = np.where(np.arange(len(now)) == client, now, view.benign(now))
    rank = f"{who}: {accuracy} in round {view.round}, {rank_words(others, client)}"
    gains: list[str] = []
    absent: list[str] = []
    for name, words in AGAINST.items():
        if name == view.run.algorithm:
            continue
        values = view.reference_accuracy(name, view.round)
        if values is None or not np.isfinite(values[client]):
            absent.append(REFERENCES[name])
        else:
            unit = " points" if not gains else ""
            gain = signed_points(float(now[client]) - float(values[client]), samples)
            gains.append(f"{gain}{unit} {words}")
    runs = f"{' and no '.join(absent)} run with this seed and these settings"
    missing = f" No {runs} to compare with in round {view.round}." if absent else ""
    return f"{'; '.join([rank, ', '.join(gains)] if gains else [rank])}.{missing}"


def without_accuracy(view: RunView, client: int) -> str:
    """Why a client has no accuracy in the round shown."""
    num_evaluated = (view.run.config.get("evaluation") or {}).get("clients")
    is_tested = not view.test_sizes or view.test_sizes[client] > 0
    if num_evaluated is not None and is_tested and not np.isfinite(view.accuracy()[1][:, client]).any():
        return f"Client {client} is not among the evaluated clients (evaluation.clients = {num_evaluated})."
    return f"Client {client} has no test samples, or its model is not finite in round {view.round}."


def rank_words(accuracy: np.ndarray, client: int) -> str:
    """``lowest of 40``, ``3rd lowest of 40``, ``2nd highest of 40``; ties share the more favorable rank."""
    known = accuracy[np.isfinite(accuracy)]
    below, above = int((known < accuracy[client]).sum()), int((known > accuracy[client]).sum())
    place, end = (below, "lowest") if below < above else (above, "highest")
    return f"{'' if place == 0 else ordinal(place + 1) + ' '}{end} of {len(known)}"


def curve(view: RunView, client: int, finding: str) -> None:
    """Accuracy over the rounds; ``finding`` describes the client now."""
    own = [
        client_curve.Line(
            f"{view.method}, {model}" if len(view.models) > 1 else view.method,
            view.run.algorithm,
            True,
            model == "global",
            *view.accuracy(model),
        )
        for model in view.models
    ]
    samples = view.test_sizes[client] if view.test_sizes else None
    table = client_curve.data([*own, *view.reference_lines.values()], client)
    page.chart(
        figure_cache.figure(client_curve.figure, table, view.round, samples),
        table,
        key="client_curve",
        name=f"client-{client}-curve",
        alt=f"Test accuracy by round. {finding}",
        title=f"Accuracy of client {client} by round",
        caption="Thick: this run; dashed: global model; thin: other methods with the same client, initial model and "
        "batches.",
    )


def own_data(view: RunView, client: int) -> None:
    if not np.size(view.partition.get("class_counts", ())):
        st.caption("Its class counts were not recorded.")
        return
    table, finding = client_data.data(view.partition, client), client_data.finding(view.partition, client)
    page.finding_chart(
        figure_cache.figure(client_data.figure, table),
        table,
        finding,
        key="client_data",
        name=f"client-{client}-data",
        title="Its data by class",
    )


def mistakes(view: RunView, client: int) -> None:
    """The confusion matrix of the stored models, of the client alone."""
    st.subheader("Which classes does it confuse?", anchor=False)
    samples = sum(view.partition.get("test_sizes", ()))
    found = analysis.findings(
        view,
        "confusion",
        {},
        verb="Count errors of all clients",
        cost=f"{plural(samples, 'prediction')} with the stored models, a few seconds",
    )
    if found is None:
        return
    matrix = found.arrays.get(view.model, found.arrays["personalized"])[client]
    titles = view.partition.get("class_names") or ()
    table, finding = confusion.data(matrix, titles), confusion.finding(matrix, titles)
    page.finding_chart(
        figure_cache.figure(confusion.figure, table),
        table,
        finding,
        key="client_confusion",
        name=f"client-{client}-confusion",
        also=f"Its own test samples, {view.model} model of the last round.",
    )
