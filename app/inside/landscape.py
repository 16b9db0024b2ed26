"""Loss landscape of one run: around and between the global and a personalized model, and its sharpness."""

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import model_plane, sharpness, surface
from app.components import page, terms
from app.data import queries
from app.inside import analysis
from app.inside.analysis import findings
from app.inside.client import open_client
from app.inside.tab import Tab
from app.inside.view import RunView
from app.state import widgets
from app.wording import capital, count, number, plural
from engine.core.findings import Findings

WHICH = {"last": "Last round", "best": "Best round"}
DATA = {"test": "Test", "train": "Training"}
GROUNDS = {"own": "The client's samples", "home": "Each on its own data", "everyone": "All clients' samples"}
SHAPES = {"contour": "Contours", "hills": "Hills"}
ON = {"own": "the client's samples", "everyone": "all clients' samples"}
POINTS = 41
READING = (
    "Each plot has a model at its center, marked with a cross, and shows the loss as the model's weights move along "
    "two random directions; at a distance of 1, each filter is moved by its own norm. Both models use the same "
    "directions and one scale, so depth and width can be compared: a deep minimum fits its data, a wide one tolerates "
    "changes. "
    "Check whether the personalized model's minimum is deeper or narrower than the global one's and, with all "
    "clients' samples, what it gave up. Two directions are only a slice: the numbers below cover all of them."
)


def panel(view: RunView) -> None:
    options, client = controls(view)
    if has_nothing(view, options):
        analysis.say_what_is_missing(view.run)
        return
    surfaces(view, options, client)
    between(view, options, client)
    sharp(view, options, client)
    sharp_clients(view, options, client)


def has_nothing(view: RunView, options: dict[str, Any]) -> bool:
    """Whether no panel has findings and there are no models to compute them. One message then replaces four."""
    kinds = [("landscape", options), ("plane", options), ("sharpness", options), ("sharpness", for_clients(options))]
    analyses = queries.store().analyses
    found = any(analyses.find(view.run.id, kind, wanted) for kind, wanted in kinds)
    return not found and analysis.lacks_models(view.run, options)


def for_clients(options: dict[str, Any]) -> dict[str, Any]:
    """The options of the analysis of all clients."""
    return {**{name: value for name, value in options.items() if name != "client"}, "of": "clients"}


TAB = Tab("Landscape", order=30, panel=panel)


def controls(view: RunView) -> tuple[dict[str, Any], int]:
    """The choices shared by all panels of this tab: the client, the round of the models, and the samples."""
    client = view.client or 0
    with st.container(horizontal=True, vertical_alignment="bottom", key="landscape_controls"):
        st.selectbox(
            "Client",
            range(view.num_clients),
            format_func="client {}".format,
            width=180,
            key=widgets.key("landscape_client", client, open_client),
        )
        which = widgets.switch("Models", WHICH, "which", "last")
        data = widgets.switch("Samples", DATA, "on", "test")
    chosen = {"client": (client, 0), "which": (which, "last"), "data": (data, "test")}
    return {name: value for name, (value, default) in chosen.items() if value != default}, client


def surfaces(view: RunView, options: dict[str, Any], client: int) -> None:
    st.header("How deep and wide is the minimum?", anchor=False)
    terms.paragraph(READING)
    cost = f"{count(POINTS**2)} points for each model and each set of samples; convolutions take minutes."
    found = findings(view, "landscape", options, verb="Compute landscape", cost=cost)
    if found is None:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", key="surface_controls"):
        ground = widgets.switch("Loss on", GROUNDS, "loss", "own")
        shape = widgets.switch("Drawn as", SHAPES, "shape", "contour")
    shown = {title(name, client, found): found.arrays[name] for name in panels(found, ground)}
    points = surface.data(found.arrays["axis"], shown)
    finding, name = surface.finding(points), f"landscape-client-{client}"
    if shape == "hills":
        page.chart(surface.hills(points), points, key="landscape", name=name, alt=finding)
    else:
        side_by_side(points, name)
    terms.caption(f"{finding} {scale_words(view, found)}")


def side_by_side(points: pd.DataFrame, name: str) -> None:
    """One chart per surface, all on one scale, which is next to the last; stacked on narrow screens."""
    surfaces = points.groupby("surface", sort=False)
    for i, (column, (what, own)) in enumerate(zip(st.columns(len(surfaces), gap="large"), surfaces, strict=True)):
        with column:
            page.chart(
                surface.figure(
                    own, points["loss"].to_numpy(), i == len(surfaces) - 1, 430 if len(surfaces) < 3 else 330
                ),
                own,
                key=f"landscape_{i}",
                name=f"{name}-{i}",
                title=capital(what),
                alt=surface.finding(own),
            )


def panels(found: Findings, ground: str) -> list[str]:
    """The surfaces to show, by their names in the findings."""
    by_name = {
        "home": ["global_everyone", "personalized_own"],
        "own": ["global_own", "personalized_own"],
        "everyone": ["global_everyone", "personalized_everyone"],
    }[ground]
    if "global_own" not in found.arrays and ground != "everyone":
        return ["personalized_own", "personalized_everyone"]
    return [name for name in by_name if name in found.arrays]


def title(name: str, client: int, found: Findings) -> str:
    """``model of client 3 on 875 samples of client 3``."""
    model, on = name.split("_")
    whose = "global model" if model == "global" else f"model of client {client}"
    samples = count(found.values["samples"][on])
    return f"{whose} on {samples} samples of " + ("all clients" if on == "everyone" else f"client {client}")


def scale_words(view: RunView, found: Findings) -> str:
    without = "" if "global_own" in found.arrays else f"{view.method} has no global model. "
    return (
        f"{without}Round {found.values['round']}, {DATA[found.values['data']].lower()} samples. Biases and "
        "normalizations are fixed; colors: logarithm of the loss; gray: not finite."
    )


def between(view: RunView, options: dict[str, Any], client: int) -> None:
    st.header("What lies between the global, the personalized and a locally trained model?", anchor=False)
    terms.paragraph(
        "Any three models define a plane. Distances on the screen are distances between the models' weights. The "
        "plane shows how far personalization has moved from the global model, and whether a ridge separates it "
        "from what the client would have learned alone."
    )
    cost = f"Trains client {client} alone for the run's rounds, then evaluates {count(POINTS**2)} points twice."
    found = findings(view, "plane", options, verb="Compute plane", cost=cost)
    if found is None:
        return
    columns, every = st.columns(2, gap="large"), np.concatenate([found.arrays[on].ravel() for on in ON])
    for column, (on, words) in zip(columns, ON.items(), strict=True):
        points = model_plane.data(found.arrays["x"], found.arrays["y"], found.arrays[on])
        names = found.values["models"]
        marks = model_plane.models(names, found.arrays["places"], [found.values["losses"][on][n] for n in names])
        with column:
            page.finding_chart(
                model_plane.figure(points, marks, every),
                points,
                model_plane.finding(marks),
                key=f"plane_{on}",
                name=f"plane-{on}-client-{client}",
                title=f"Loss on {words}",
            )
    if found.values.get("has_parts"):
        terms.caption(
            f"The contours keep what {view.method} adds to the network of client {client}. The losses beside the other "
            "models are without it."
        )


def sharp(view: RunView, options: dict[str, Any], client: int) -> None:
    st.header("How sharp is the minimum in all directions?", anchor=False)
    cost = "About 150 Hessian-vector products for each model and each set of samples."
    found = findings(view, "sharpness", options, verb="Measure sharpness", cost=cost)
    if found is None:
        return
    table, finding = measures(found, client), sharpness_finding(found, client)
    st.dataframe(table, hide_index=True, key="sharpness_table", alt=f"Sharpness of the models of client {client}")
    page.files(table, key="sharpness_table", name=f"sharpness-client-{client}", caption=finding)
    terms.caption(
        f"{finding} Worst nearby: the largest loss within ρ = 0.05 of the weights, by projected ascent. One step: "
        "the point that sharpness-aware training evaluates. Top eigenvalue: curvature of the steepest direction "
        "(Lanczos). Trace: total curvature, ± the standard error of 32 random vectors."
    )


def measures(found: Findings, client: int) -> pd.DataFrame:
    """The table on the screen, in words and rounded numbers."""
    rows = []
    for row in found.values["measures"]:
        error = f" ± {number(row['trace_error'], 2)}" if row["trace_error"] else ""
        rows.append(
            {
                "Model": "global" if row["model"] == "global" else f"client {client}'s",
                "On": f"{ON[row['on']]} (n = {row['samples']})",
                "Loss": number(row["loss"]),
                "One step uphill": number(row["first_order"]),
                "Worst nearby": number(row["worst"]),
                "Top eigenvalue": number(row["eigenvalue"]),
                "Trace": number(row["trace"]) + error,
            }
        )
    return pd.DataFrame(rows)


def sharpness_finding(found: Findings, client: int) -> str:
    """The client's model compared with the global one, on the client's samples."""
    own = {row["model"]: row for row in found.values["measures"] if row["on"] == "own"}
    top = {model: number(row["eigenvalue"]) for model, row in own.items()}
    finding = f"The top eigenvalue of client {client}'s model on its own samples is {top['personalized']}"
    return f"{finding}, that of the global model {top['global']}." if "global" in top else f"{finding}."


def sharp_clients(view: RunView, options: dict[str, Any], client: int) -> None:
    st.header("Are sharp models less accurate?", anchor=False)
    cost = f"Top eigenvalues of {plural(view.num_clients, 'client')}, each on its own samples."
    found = findings(view, "sharpness", for_clients(options), verb="Measure all clients", cost=cost)
    if found is None:
        return
    eigenvalue, rise, loss, accuracy = (np.asarray(found.arrays[n]) for n in ("eigenvalue", "rise", "loss", "accuracy"))
    points = sharpness.data(eigenvalue, rise, loss, accuracy, view.test_sizes, view.malicious)
    fig, finding = sharpness.figure(points, client), sharpness.finding(points)
    page.finding_chart(fig, points, finding, key="sharp_clients", name="sharpness")
