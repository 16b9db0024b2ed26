"""Agreement of the clusters with the true contexts by round: the adjusted Rand index.

1 is the same partition, 0 is chance, less is worse than chance.
"""

import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import base_layout, color, style_of, theme

PERFECT = 1 - 1e-9


def data(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells of the raster -> [round, ari]; empty if the contexts are unknown."""
    return cells.drop_duplicates("round")[["round", "ari"]].dropna().reset_index(drop=True)


def figure(df: pd.DataFrame, algorithm: str, at: int) -> go.Figure:
    """A line between chance and perfect agreement, both dotted."""
    shade, fig = theme(), go.Figure()
    for y, text in ((1.0, "true contexts"), (0.0, "chance")):
        fig.add_hline(
            y=y,
            line={"color": shade.muted, "width": 1, "dash": "dot"},
            annotation={
                "text": text,
                "font": {"color": shade.muted, "size": 12},
                "xanchor": "right",
                "x": 1,
                "yanchor": "top",
            },
        )
    fig.add_scatter(
        x=df["round"],
        y=df["ari"].astype("float32"),
        mode="lines",
        cliponaxis=False,
        line={"color": color(style_of(algorithm)), "width": 2.2},
        hovertemplate="round %{x}: %{y:.3f}<extra></extra>",
    )
    fig.add_vline(x=at, line={"color": shade.muted, "width": 1, "dash": "dot"})
    base_layout(fig, height=300)
    fig.update_xaxes(title_text="round")
    fig.update_yaxes(title_text="adjusted Rand index", range=[min(-0.08, df["ari"].min() - 0.05), 1.06])
    return fig.update_layout(showlegend=False)


def finding(df: pd.DataFrame) -> str:
    """``The clusters match the true contexts from round 6 on.`` or the final index."""
    wrong = df[df["ari"] < PERFECT]
    last = df["ari"].iloc[-1]
    if last >= PERFECT:
        since = df["round"].iloc[0] if wrong.empty else df.loc[df["round"] > wrong["round"].max(), "round"].min()
        return f"The clusters match the true contexts from round {int(since)} on."
    return f"The adjusted Rand index with the true contexts ends at {last:.2f}; its maximum is {df['ari'].max():.2f}."
