"""The cost of the server's k-means by round: figure 5b of CGPFL (Tang et al.).

    inertia = sum_i ||omega~_i - nearest centroid||^2               the spread within clusters

A method that clusters what clients send has this cost in each round, in addition to training.
"""

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.charts.plot.palette import base_layout, color, style_of, theme
from app.wording import number, seconds

PANELS = {"inertia": "spread within", "kmeans_iterations": "iterations", "kmeans_seconds": "milliseconds"}
NAMES = tuple(f"diagnostics.{name}" for name in PANELS)


def data(series: pd.DataFrame) -> pd.DataFrame:
    """[round, name, value] of stored scalars -> [round, inertia, kmeans_iterations, kmeans_seconds]."""
    own = series[series["name"].isin(NAMES)]
    own = own.assign(name=own["name"].str.removeprefix("diagnostics."))
    table = own.pivot(index="round", columns="name", values="value").reindex(columns=list(PANELS))
    return table.rename_axis(columns=None).reset_index()


def figure(df: pd.DataFrame, algorithm: str, at: int) -> go.Figure:
    """Three small stacked panels with a shared x axis."""
    fig = make_subplots(3, 1, shared_xaxes=True, vertical_spacing=0.07)
    scale = {"kmeans_seconds": 1000.0}
    for row, (name, title) in enumerate(PANELS.items(), start=1):
        fig.add_scatter(
            x=df["round"],
            y=(df[name] * scale.get(name, 1.0)).astype("float32"),
            mode="lines",
            row=row,
            col=1,
            line={"color": color(style_of(algorithm)), "width": 1.8, "shape": "hv" if "iter" in name else "linear"},
            hovertemplate=f"round %{{x}}: %{{y:.4g}} {title}<extra></extra>",
        )
        fig.add_vline(x=at, line={"color": theme().muted, "width": 1, "dash": "dot"}, row=row, col=1)
    base_layout(fig, height=360)
    for row, title in enumerate(PANELS.values(), start=1):
        fig.update_yaxes(title_text=title, rangemode="tozero", nticks=4, row=row, col=1)
    fig.update_xaxes(title_text="round", row=3, col=1)
    return fig.update_layout(showlegend=False)


def finding(df: pd.DataFrame) -> str:
    """``k-means takes a median of 3 iterations and 12 ms per round; the spread within clusters falls from 4.79 to ...``

    If it exceeds both ends in between, the extreme round is named.
    """
    inertia = df.set_index("round")["inertia"]
    first, last = inertia.iloc[0], inertia.iloc[-1]
    way = "falls" if last < first else "grows" if last > first else "stays"
    change = f"{way} at {number(last)}" if way == "stays" else f"{way} from {number(first)} to {number(last)}"
    beyond = [
        (word, at)
        for word, at in (("up", inertia.idxmax()), ("down", inertia.idxmin()))
        if inertia[at] not in (first, last)
    ]
    change += "".join(f", {word} to {number(inertia[at])} in round {int(at)}" for word, at in beyond)
    middle = df[["kmeans_iterations", "kmeans_seconds"]].median()
    iterations = "1 iteration" if middle["kmeans_iterations"] == 1 else f"{middle['kmeans_iterations']:g} iterations"
    return (
        f"k-means takes a median of {iterations} and {seconds(middle['kmeans_seconds'])} per round; the spread within "
        f"clusters {change}."
    )
