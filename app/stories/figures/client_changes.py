"""What each client gains or loses from one method to another, sorted from the greatest gain to the greatest loss."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.components.moving_figure import Moves
from app.wording import plural

HEIGHT = 280
LEAST = 12.0  # points on each side of zero
SIDES = GAIN, LOSS = "gain", "loss"


def data(ours: np.ndarray, theirs: np.ndarray) -> pd.DataFrame:
    """Accuracies [n] with two methods -> [client, rank, change] by the change in points, the greatest gain first."""
    change = 100 * (np.asarray(ours, float) - np.asarray(theirs, float))
    order = np.argsort(-change, kind="stable")
    return pd.DataFrame({"client": order, "rank": np.arange(1, len(order) + 1), "change": change[order]})


def figure(count: int, reach: float) -> go.Figure:
    """Bars of ``count`` clients, up to ``reach`` points; see ``moving``."""
    fig, shade = go.Figure(), palette.theme()
    for name, color in zip(SIDES, (shade.accent, shade.muted), strict=True):
        fig.add_bar(
            x=[],
            y=[],
            name=name,
            marker={"color": color, "line": {"width": 0}},
            hovertemplate="%{y:+.0f} points<extra></extra>",
        )
    fig.add_scatter(x=[], y=[], mode="text", name="counts", textfont_color=shade.ink, hoverinfo="skip")
    most = max(reach, LEAST)
    palette.base_layout(fig, height=HEIGHT)
    fig.add_hline(y=0, line={"color": shade.ink, "width": 1})
    fig.update_layout(showlegend=False, margin_t=8, bargap=0.15, barmode="overlay")
    fig.update_xaxes(
        range=[0.25, count + 0.75],
        title_text=f"{count} clients, by change",
        showticklabels=False,
        ticks="",
        fixedrange=True,
    )
    step = 10 if most <= 30 else 20
    ticks = [step * at for at in range(-int(most // step), int(most // step) + 1)]  # none behind the counts
    fig.update_yaxes(range=[-1.3 * most, 1.3 * most], tickvals=ticks, title_text="change, points", fixedrange=True)
    return fig


def moving(df: pd.DataFrame, reach: float) -> Moves:
    """The clients as they are now, and how many gain and lose."""
    most, sides = max(reach, LEAST), {GAIN: df[df["change"] > 0], LOSS: df[df["change"] < 0]}
    bars = {name: {"x": own["rank"].tolist(), "y": own["change"].round(2).tolist()} for name, own in sides.items()}
    gain, loss = (len(own) for own in sides.values())
    middle = (len(df) + 1) / 2
    counts = {
        "x": [middle, middle],
        "y": [1.18 * most, -1.18 * most],
        "text": [f"▲ {plural(gain, 'client')} better", f"▼ {plural(loss, 'client')} worse"],
    }
    return {**bars, "counts": counts}


def finding(df: pd.DataFrame) -> str:
    """The figure in a sentence, for screen readers."""
    gain, loss = int((df["change"] > 0).sum()), int((df["change"] < 0).sum())
    better = f"{gain} of {len(df)} clients {'does' if gain == 1 else 'do'} better"
    worse = f"{loss} {'does' if loss == 1 else 'do'} worse"
    return f"{better} and {worse}; median change {df['change'].median():+.0f} points"
