"""Features of one run: the output of the clients' bodies, and the clients' data."""

from typing import Any, cast

import streamlit as st

from app.charts import feature_map, split
from app.components import page, terms
from app.inside.analysis import findings
from app.inside.landscape import DATA, WHICH
from app.inside.tab import Tab
from app.inside.view import RunView
from app.state import widgets
from app.wording import count, plural
from engine.core.findings import Findings

PICTURES = {"tsne": "t-SNE", "pca": "PCA"}
COLORS = {"class": "Class", "client": "Client"}
PERPLEXITIES = {"10": "10", "30": "30", "50": "50"}
NEIGHBORS = 10  # that the analysis looks at
WARNING = (
    "In t-SNE, distances between groups and group sizes are not meaningful, only neighbors are. The shares are "
    "computed on the features themselves."
)


def panel(view: RunView) -> None:
    st.header("Do features group by class or by client?", anchor=False)
    terms.paragraph(
        "Features are the output of the body, usually the shared layers. If each class forms one group across "
        "clients, the bodies agree; if a class splits by client, they have become personal."
    )
    options = controls()
    cost = f"Runs {count(1000)} samples through their clients' models, then t-SNE: about 10 s."
    found = findings(view, "features", options, verb="Compute features", cost=cost)
    if found is None:
        return
    left, right = st.columns([3, 2], gap="large")
    with left:
        picture(view, found)
    with right:
        learned_from(view)


TAB = Tab("Features", order=40, panel=panel)


def controls() -> dict[str, Any]:
    with st.container(horizontal=True, vertical_alignment="bottom", key="feature_controls"):
        which = widgets.switch("Models", WHICH, "which", "last")
        data = widgets.switch("Samples", DATA, "on", "test")
        perplexity = float(widgets.switch("Perplexity of t-SNE", PERPLEXITIES, "perplexity", "30"))
    chosen = {"which": (which, "last"), "data": (data, "test"), "perplexity": (perplexity, 30.0)}
    return {name: value for name, (value, default) in chosen.items() if value != default}


def picture(view: RunView, found: Findings) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", key="picture_controls"):
        kind = widgets.switch("Picture", PICTURES, "picture", "tsne")
        by = cast(feature_map.Group, widgets.switch("Color by", COLORS, "colour", "class"))
    arrays, values = found.arrays, found.values
    points = feature_map.data(arrays[kind], arrays["label"], arrays["client"], view.partition.get("class_names") or [])
    finding = feature_map.finding({"class": values["class"], "client": values["client"]}, NEIGHBORS)
    other = "client" if by == "class" else "class"
    page.finding_chart(
        feature_map.figure(points, by, view.client),
        points,
        finding,
        key="features",
        name=f"features-{kind}",
        title=f"{PICTURES[kind]} of {plural(len(points), 'sample')}; symbols: {other}",
        also=f"{WARNING if kind == 'tsne' else explained(values)} {of_what(values)}",
    )


def explained(values: dict[str, Any]) -> str:
    across, up = (100 * share for share in values["explained"])
    return f"The two axes explain {across:.0f} % and {up:.0f} % of the features' variance."


def of_what(values: dict[str, Any]) -> str:
    width = count(values["width"])
    if values["are_inputs"]:
        return f"This model has no body, so its features are the {width} inputs: the same for every method."
    return f"{width} features, {DATA[values['data']].lower()} samples, round {values['round']}."


def learned_from(view: RunView) -> None:
    if not view.partition.get("class_counts"):
        return
    table = split.data(view.partition)
    page.finding_chart(
        split.figure(table, height=560),
        table,
        split.sentence(table),
        key="features_split",
        name="split",
        title="Data by client",
    )
