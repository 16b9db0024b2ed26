"""Error by heterogeneity: R, the spread of the clients' true models, or s, their number of classes.

After figure 1 of Yu et al., The Effect of Personalization in FedProx: training alone is best where clients differ, one
model for all where they are similar.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import log_axis
from app.charts.plot.bands import whiskers
from app.charts.plot.line_labels import End, label_ends
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout
from app.data.comparison import REFERENCES, per_method, ranking, unit_of
from app.statistics.intervals import MIN_BLOCKS
from app.wording import names, number


class Difference(NamedTuple):
    """A measure of heterogeneity: its column and title."""

    symbol: str
    title: str


SPREAD = Difference("R", "R, spread of the clients' true models")
CLASSES = Difference("s", "s, classes per client")


def data(runs: pd.DataFrame, of: Difference = SPREAD) -> pd.DataFrame:
    """[method, algorithm, split, seed, R, error] -> a row per method and R: its error with ±, whether it is the best.

    ``unit`` is what ``seeds`` counts (``comparison.unit_of``), and ± is the deviation over these. ``method`` is what
    the runs of all R have in common. ``best`` and ``may_be_best`` (``comparison.ranking``) are per R.
    """
    known = runs.dropna(subset=["error"])
    parts = []
    for x, own in known.groupby(of.symbol):
        part = per_method(own, ("error",)).assign(**{of.symbol: x})
        parts.append(part.assign(may_be_best=part["method"].isin(ranking(own, "error", is_higher_better=False).tied)))
    columns = ["method", "algorithm", of.symbol, "error", "error_pm", "seeds", "best", "may_be_best", "unit"]
    if not parts:
        return pd.DataFrame(columns=columns)
    rows = pd.concat(parts, ignore_index=True).assign(unit=unit_of(known))
    rows["best"] = rows["error"] == rows.groupby(of.symbol)["error"].transform("min")
    order = {name: at for at, name in enumerate(known["method"].unique())}
    return rows.sort_values(["method", of.symbol], key=lambda c: c.map(order) if c.name == "method" else c)[
        columns
    ].reset_index(drop=True)


def figure(df: pd.DataFrame, title: str, of: Difference = SPREAD) -> go.Figure:
    """A line per method with whiskers over seeds, the references dashed; a star at the best of each R.

    The axis is logarithmic, as ``title`` says, unless an error is zero.
    """
    fig, look, ends = go.Figure(), looks(df), []
    low, high = df["error"].min(), df["error"].max()
    is_log = bool(low > 0)
    for method, own in df.groupby("method", sort=False):
        style = look[method]
        fig.add_scatter(
            x=own[of.symbol],
            y=own["error"],
            mode="lines+markers",
            name=method,
            cliponaxis=False,
            error_y=whiskers(own["error_pm"], style.color),
            line={"color": style.color, "dash": style.dash, "width": 1.5 if _is_reference(own) else 2.2},
            marker={
                "size": np.where(own["best"], 15, 8),
                "symbol": np.where(own["best"], "star", style.symbol),
                "opacity": 1,
            },
            hovertemplate=f"{method}, {of.symbol} = %{{x:g}}<br>error %{{y:.3g}}<extra></extra>",
        )
        last = own.iloc[-1]
        ends.append(End(str(method), None, _height(last["error"], is_log), style.color))
    base_layout(fig, height=430)
    label_ends(fig, ends, _height(low, is_log), _height(high, is_log))
    fig.update_xaxes(title_text=of.title, tickvals=sorted(df[of.symbol].unique()))
    if is_log:
        fig.update_yaxes(title_text=title)
        log_axis.apply(fig.layout.yaxis, low, high)
    else:
        fig.update_yaxes(title_text=title.removesuffix(", log scale"), rangemode="tozero")
    return fig.update_layout(showlegend=False)


def finding(df: pd.DataFrame, of: Difference = SPREAD) -> str:
    """``Lowest error: GlobalTrain at R = 0 (0.39), FedProx adaptive or LocalTrain at R = 3 (3.01).``"""
    parts: list[str] = []
    is_doubtful = False
    for x, own in df.groupby(of.symbol):
        best = own[own["best"]].iloc[0]
        others = own.loc[own["may_be_best"] & (own["method"] != best["method"]), "method"]
        is_few = own["seeds"].max() < MIN_BLOCKS and len(own) > 1
        is_doubtful |= is_few
        who = best["method"] if is_few else names([best["method"], *others], 3, "or")
        parts.append(f"{who} at {of.symbol} = {number(x)} ({number(best['error'])})")
    few = f"; fewer than three {df['unit'].iloc[0]}s are too few to distinguish methods" if is_doubtful else ""
    return f"Lowest error: {', '.join(parts)}{few}."


def _height(error: float, is_log: bool) -> float:
    return float(np.log10(error) if is_log else error)


def _is_reference(own: pd.DataFrame) -> bool:
    return own["algorithm"].iloc[0] in REFERENCES
