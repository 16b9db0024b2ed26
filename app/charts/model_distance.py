"""The distance between the clients' models by round: figure 5a of CGPFL (Tang et al.).

    model distance = mean_{i != j} ||omega~_i - omega~_j||          over the participants

omega~_i is what client i sends; clusters are found among these.
"""

import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import base_layout, color, style_of, theme
from app.wording import number


def data(series: pd.DataFrame) -> pd.DataFrame:
    """[round, name, value] of stored scalars -> [round, distance]."""
    own = series[series["name"] == "diagnostics.model_distance"]
    return own[["round", "value"]].rename(columns={"value": "distance"}).reset_index(drop=True)


def figure(df: pd.DataFrame, algorithm: str, at: int) -> go.Figure:
    """A line; the round that the page shows is marked."""
    fig = go.Figure()
    fig.add_scatter(
        x=df["round"],
        y=df["distance"].astype("float32"),
        mode="lines",
        line={"color": color(style_of(algorithm)), "width": 2.2},
        hovertemplate="round %{x}: %{y:.4g}<extra></extra>",
    )
    fig.add_vline(x=at, line={"color": theme().muted, "width": 1, "dash": "dot"})
    base_layout(fig, height=300)
    fig.update_xaxes(title_text="round")
    fig.update_yaxes(title_text="mean distance between clients' models", rangemode="tozero")
    return fig.update_layout(showlegend=False)


def finding(df: pd.DataFrame) -> str:
    """``The clients' models are 2.79 apart in round 1 and 0.851 in round 100; most in round 3 with 3.01.``"""
    first, last = df.iloc[0], df.iloc[-1]
    top, least = (df.loc[df["distance"].idxmax()], df.loc[df["distance"].idxmin()])
    ends = f"{number(first['distance'])} apart in round {int(first['round'])} and {number(last['distance'])} in round"
    ends_at = (first["round"], last["round"])
    most = "".join(
        f"; {word} in round {int(row['round'])} with {number(row['distance'])}"
        for word, row in (("most", top), ("least", least))
        if row["round"] not in ends_at
    )
    return f"The clients' models are {ends} {int(last['round'])}{most}."
