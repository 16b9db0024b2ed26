"""The difference between two methods for each client, sorted: how many gain, how much, and who loses."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts import paired
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme
from app.data.thinning import quantile_note, quantiles
from app.wording import signed_points


def data(clients: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The pairs of ``paired.data`` with their ``rank``, from the greatest gain of A to its greatest loss."""
    pairs = paired.data(clients, a, b)
    return pairs.assign(rank=np.arange(1, len(pairs) + 1))


def figure(df: pd.DataFrame, a: str, b: str, methods: pd.DataFrame, chosen: Sequence[int] = ()) -> go.Figure:
    """Bars above zero in A's color, below in B's; the dotted line is the median. If clients are ``chosen``, the others
    fade, and the chosen ones have a dot at zero, which a difference of zero needs to be seen. Of more than 2,000
    clients the bars are quantiles.
    """
    everyone, is_chosen = 100 * df["difference"].to_numpy(float), df["client"].isin(chosen)
    ranks, whole, fewest = df["rank"][is_chosen], len(df), float(df["samples"].min())
    df = df.iloc[quantiles(whole)]
    look, is_lit = looks(methods), df["client"].isin(chosen).to_numpy()
    points = 100 * df["difference"].to_numpy(float)
    fig = go.Figure(
        go.Bar(
            x=df["rank"],
            y=points,
            width=None if len(df) == whole else whole / len(df),
            marker_line_width=0,
            marker_opacity=np.where(is_lit, 1, paired.FADED) if len(chosen) else 1,
            marker_color=np.where(points > 0, look[a].color, look[b].color),
            customdata=df[["client"]].to_numpy(),
            text=[
                f"{name}: {signed_points(r.difference, r.samples)} points"
                for name, r in zip(paired.who(df), df.itertuples(), strict=True)
            ],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    )
    if len(ranks):
        fig.add_scatter(
            x=ranks,
            y=np.zeros(len(ranks)),
            mode="markers",
            hoverinfo="skip",
            cliponaxis=False,
            marker={"color": theme().ink, "size": 6},
        )
    base_layout(fig, height=350)
    fig.add_hline(y=0, line={"color": theme().ink, "width": 1})
    if len(everyone):
        _notes(fig, everyone, fewest, a, b)
    fig.update_xaxes(title_text="clients, by difference" + quantile_note(whole, "it"), showticklabels=False, ticks="")
    fig.update_yaxes(title_text="difference, points")
    return fig.update_layout(showlegend=False, bargap=0.15 if len(points) <= 80 else 0)


def _notes(fig: go.Figure, points: np.ndarray, samples: float, a: str, b: str) -> None:
    median, muted = float(np.median(points)), theme().muted
    fig.add_hline(y=median, line={"color": muted, "width": 1, "dash": "dot"})
    label = {"showarrow": False, "font": {"color": muted}, "xref": "paper"}
    text = f"median {paired.median_in_words(median / 100, samples)}"
    fig.add_annotation(x=1, y=median, text=text, xanchor="right", yanchor="bottom", **label)
    above, below = int((points > 0).sum()), int((points < 0).sum())
    if above:
        fig.add_annotation(
            x=0, y=points.max(), text=f"▲ {above} better with {a}", xanchor="left", yanchor="bottom", **label
        )
    if below:
        fig.add_annotation(
            x=1, y=points.min(), text=f"▼ {below} better with {b}", xanchor="right", yanchor="top", **label
        )
