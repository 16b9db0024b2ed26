"""Accuracy over rounds or a cost: the mean over clients and its lowest 5 %, over seeds or splits."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.bands import band
from app.charts.plot.line_labels import End, label_ends
from app.charts.plot.method_styles import Look, looks
from app.charts.plot.palette import base_layout
from app.data.comparison import unit_of
from app.data.costs import AXIS_TITLES, SIMULATED, SIMULATED_CLOCK, Axis, recorded
from app.data.thinning import evenly
from app.wording import decimals
from engine.core.vocabulary import megabytes

MAX_POINTS, MAX_LINES, MAX_BANDS = 300, 12, 3
MAX_DASHED = MAX_LINES // 2  # with more methods, the second line is omitted


def data(series: pd.DataFrame, model: str = "personalized", x: Axis = "round") -> pd.DataFrame:
    """[run, method, algorithm, split, seed, round, name, value] -> a row per method and round:
    [method, algorithm, round, x, mean, mean_pm, lowest, seeds].

    Only rounds that every run of a method has; a method without the model has none. x is the cost up to that round; if
    the runs of a method differ in x, they are interpolated at the same x, up to the shortest of them. Runs on one split
    are averaged first, as in ``comparison.per_method``.
    """
    wide = series.pivot_table(index=["run", "round"], columns="name", values="value")
    wide = wide.reindex(columns=[f"{model}.mean", f"{model}.lowest5", *recorded(x)]).sort_index()
    wide["x"] = _spent(wide, x)
    known = wide.rename(columns={f"{model}.mean": "mean", f"{model}.lowest5": "lowest"}).dropna(subset=["mean"])
    of_run = known[["x", "mean", "lowest"]].reset_index()
    parts = []
    for (method, algorithm), rows in series.groupby(["method", "algorithm"], sort=False):
        units = rows.groupby("run")["run" if unit_of(rows) == "seed" else "split"].first()
        own = of_run[of_run["run"].isin(units.index)]
        if len(own):
            parts.append(_over_units(own, units).assign(method=method, algorithm=algorithm))
    columns = ["method", "algorithm", "round", "x", "mean", "mean_pm", "lowest", "seeds"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def figure(df: pd.DataFrame, x: Axis = "round", drawn: Sequence[str] | None = None) -> go.Figure:
    """Mean solid, names at the ends; for few methods also the lowest 5 % dashed, and for fewer a band over seeds.

    ``drawn`` names the methods that get a line, if not the first MAX_LINES. With the columns ``samples`` and
    ``tail_samples`` the numbers under the pointer have as many decimals as these allow.
    """
    fig, ends, look = go.Figure(), list[End](), looks(df)
    df = df[df["method"].isin(list(df["method"].unique() if drawn is None else drawn)[:MAX_LINES])]
    groups = list(df.groupby("method", sort=False))
    for method, own in groups:
        style = look[method]
        if own["mean_pm"].notna().any() and len(groups) <= MAX_BANDS:
            fig.add_trace(band(own["x"], 100 * own["mean"], 100 * own["mean_pm"], style.color))
        fig.add_traces(_lines(str(method), own, style, x, with_lowest=len(groups) <= MAX_DASHED))
        last = own.iloc[-1]
        ends.append(End(str(method), float(last["x"]), 100 * float(last["mean"]), style.color))
    fig.add_trace(_marks(ends, [look[end.text].symbol for end in ends]))
    base_layout(fig, height=370)
    low, high = 100 * df["lowest" if len(groups) <= MAX_DASHED else "mean"].min(), 100 * df["mean"].max()
    pad = max(1.0, 0.06 * (high - low))
    label_ends(fig, ends, low - pad, high + pad)
    fig.update_yaxes(title_text="test accuracy, %", range=[low - pad, high + pad])
    fig.update_xaxes(title_text=AXIS_TITLES[x], range=[0, float(df["x"].max()) or 1.0])
    return fig.update_layout(showlegend=False)


def _lines(method: str, own: pd.DataFrame, style: Look, x: Axis, with_lowest: bool) -> list[go.Scatter]:
    """The mean, and below it the lowest 5 %."""
    at = own["x"].to_numpy(np.float32)
    mean, lowest = (100 * own[c].to_numpy(np.float32) for c in ("mean", "lowest"))
    where = "round %{x}" if x == "round" else f"%{{x:,.4g}} {AXIS_TITLES[x]}"
    of = {name: decimals(own[name].iloc[0]) if name in own else 2 for name in ("samples", "tail_samples")}
    lines = [(mean, "mean", style.dash if not with_lowest else "solid", 2.2, of["samples"])]
    lines += [(lowest, "lowest 5 %", "dash", 1.2, of["tail_samples"])] if with_lowest else []
    return [
        go.Scatter(
            x=at,
            y=values,
            mode="lines",
            name=f"{method} {what}",
            line={"color": style.color, "dash": dash, "width": width},
            hovertemplate=f"{method}, {where}<br>{what} %{{y:.{digits}f}} %<extra></extra>",
        )
        for values, what, dash, width, digits in lines
    ]


def _marks(ends: Sequence[End], symbols: list[str]) -> go.Scatter:
    """Markers at the ends of all means, in one trace: each trace costs the browser as much as a line."""
    return go.Scatter(
        x=[end.x for end in ends],
        y=[end.y for end in ends],
        mode="markers",
        hoverinfo="skip",
        cliponaxis=False,
        marker={"symbol": symbols, "size": 9, "color": [end.color for end in ends]},
    )


def _spent(wide: pd.DataFrame, x: Axis) -> pd.Series:
    """[run, round] -> x of every round."""
    if x == "round":
        return pd.Series(wide.index.get_level_values("round"), wide.index, dtype=float)
    if x == SIMULATED:
        return wide[SIMULATED_CLOCK].groupby(level="run").ffill()  # since the start of the run
    spent = wide[list(recorded(x))].fillna(0.0).groupby(level="run").cumsum()
    return megabytes(spent) if x == "megabytes" else spent[x]


def _over_units(own: pd.DataFrame, units: pd.Series) -> pd.DataFrame:
    """[run, round, x, mean, lowest] of one method -> its mean and deviation over units, at most MAX_POINTS rows.

    ``units``: run -> what it is averaged with.
    """
    at = {name: own.pivot(index="round", columns="run", values=name).dropna() for name in ("x", "mean")}
    rounds = at["x"].index[evenly(len(at["x"]), MAX_POINTS)]
    x = at["x"].loc[rounds].to_numpy()
    ends = x[-1].min() if len(x) else 0.0
    alike = np.allclose(x, x[:, :1])
    grid = x[:, 0] if alike else np.minimum(x.mean(axis=1), ends)
    lowest = own.pivot(index="round", columns="run", values="lowest").loc[rounds].to_numpy()
    mean = at["mean"].loc[rounds].to_numpy()
    if not alike:
        mean, lowest = (
            np.stack([np.interp(grid, x[:, i], values[:, i]) for i in range(x.shape[1])], axis=1)
            for values in (mean, lowest)
        )
    runs = at["mean"].columns
    mean, lowest = (
        pd.DataFrame(values.T).groupby(units[runs].to_numpy()).mean().to_numpy().T for values in (mean, lowest)
    )
    spread = mean.std(axis=1, ddof=1) if mean.shape[1] > 1 else np.full(len(mean), np.nan)
    return pd.DataFrame(
        {
            "round": rounds,
            "x": grid,
            "mean": mean.mean(axis=1),
            "mean_pm": spread,
            "lowest": lowest.mean(axis=1),
            "seeds": mean.shape[1],
        }
    )
