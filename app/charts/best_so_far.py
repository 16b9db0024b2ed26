"""The best of the first trials against the budget: whether more trials would have helped."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.line_labels import End, label_ends
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout
from app.statistics.best_of import best_in_order, expected_best
from app.wording import plural, points

AXES = {"trials": "Trials", "gradients": "Gradients"}
AXIS_TITLES = {"trials": "trials", "gradients": "gradient evaluations of the trials"}
ENOUGH = 0.002  # a fifth of a point


def data(trials: pd.DataFrame, axis: str = "trials", in_order: bool = False) -> pd.DataFrame:
    """[method, algorithm, split, trial, value, gradients] -> [method, algorithm, trials, x, best], a mean over splits.

    ``value`` is what the setting is chosen by, NaN for a trial that diverged; ``best`` is its expected maximum over so
    many of the trials, drawn with replacement; ``in_order`` the maximum of the first ones, which must be sorted. ``x``
    is the number of trials, or their gradient evaluations.
    """
    parts, best_of = [], best_in_order if in_order else expected_best
    for (method, algorithm), own in trials.groupby(["method", "algorithm"], sort=False):
        splits = [best_of(part["value"].to_numpy(float)) for _, part in own.groupby("split")]
        count = np.arange(1, min(map(len, splits)) + 1)
        best = np.mean([split[: len(count)] for split in splits], axis=0)
        x = count * own["gradients"].mean() if axis == "gradients" else count
        parts.append(pd.DataFrame({"method": method, "algorithm": algorithm, "trials": count, "x": x, "best": best}))
    columns = ["method", "algorithm", "trials", "x", "best"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def late_gains(df: pd.DataFrame) -> pd.Series:
    """method -> what the last half of its trials added, most first."""
    gains = {}
    for method, own in df.groupby("method", sort=False):
        best = own.sort_values("trials")["best"].to_numpy(float)
        gains[method] = best[-1] - best[(len(best) - 1) // 2]
    return pd.Series(gains, dtype=float).dropna().sort_values(ascending=False, kind="stable")


def finding(df: pd.DataFrame) -> str:
    """``The last 8 of 16 trials added at most 0.1 points (Ditto): more trials would change little.``"""
    gains, counts = late_gains(df), df.groupby("method")["trials"].max()
    if gains.empty or counts.max() < 2:
        return "With one trial per method nothing was tuned."
    most = int(counts[gains.index[0]])
    half = most - (most + 1) // 2
    amount = points(gains.iloc[0])
    gain = f"The last {half} of {most} trials added {amount if amount.startswith('less') else f'at most {amount}'}"
    gain += "" if len(gains) == 1 else f" ({gains.index[0]})"
    if gains.iloc[0] <= ENOUGH:
        return f"{gain}: more trials would change little."
    rising = int((gains > ENOUGH).sum())
    return f"{gain}: for {plural(rising, 'method')} more trials may find better settings."


def figure(df: pd.DataFrame, axis: str = "trials", value: str = "expected best validation accuracy") -> go.Figure:
    """A line per method, named at its end."""
    fig, look, ends = go.Figure(), looks(df), list[End]()
    for method, own in df.groupby("method", sort=False):
        style, y = look[str(method)], 100 * own["best"]
        fig.add_scatter(
            x=own["x"],
            y=y,
            mode="lines",
            line={"color": style.color, "dash": style.dash, "width": 2.2},
            customdata=own["trials"],
            hovertemplate=f"{method}<br>best of %{{customdata}}: %{{y:.2f}} %<extra></extra>",
        )
        ends.append(End(str(method), float(own["x"].iloc[-1]), float(y.iloc[-1]), style.color))
    base_layout(fig, height=400)
    low, high = 100 * df["best"].min(), 100 * df["best"].max()
    pad = max(0.5, 0.06 * (high - low))
    label_ends(fig, [end for end in ends if np.isfinite(end.y)], low - pad, high + pad)
    fig.update_xaxes(title_text=AXIS_TITLES[axis], range=[0, float(df["x"].max())])
    fig.update_yaxes(title_text=f"{value}, %", range=[low - pad, high + pad])
    return fig.update_layout(showlegend=False)
