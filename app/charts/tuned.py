"""What tuning was worth: the test accuracy of each method with its defaults and with its chosen settings."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.method_styles import Look, looks
from app.charts.plot.palette import base_layout, theme, translucent
from app.charts.plot.segments import joined
from app.statistics.intervals import t_interval
from app.wording import clients as in_words
from app.wording import percent, points

ROW_PX = 48
TAIL_BELOW = 0.3  # where the lowest clients are drawn, in rows
TICK = 0.16  # half of the mark of the chance floor
REFERENCE = "local_train"
SETTINGS = ("default", "tuned")
COLUMNS = ["method", "algorithm", "default", "tuned", "gain", "default_lowest", "tuned_lowest"]
DRAWN = ["default", "tuned", "default_lowest", "tuned_lowest", "floor"]


def data(runs: pd.DataFrame, floors: pd.DataFrame) -> pd.DataFrame:
    """[method, algorithm, split, setting, mean, lowest, samples, tail_samples] -> a row per method, best tuned first.

    ``setting`` is ``default`` or ``tuned``; seeds are averaged inside splits, and then splits. NaN where no run with a
    setting has ended yet. ``gain`` is over the splits that have both settings, so it may differ from the difference of
    the two means. ``floors`` [method, floor, floor_low, floor_high] is the chance floor of the lowest clients of the
    tuned runs.
    """
    heads = ["method", "algorithm", "split", "setting"]
    blocks = runs.groupby(heads, as_index=False, sort=False)[["mean", "lowest"]].mean()
    wide = blocks.groupby(["method", "algorithm", "setting"], sort=False)[["mean", "lowest"]].mean().unstack("setting")
    wide = wide.reindex(columns=pd.MultiIndex.from_product([("mean", "lowest"), SETTINGS]))
    rows = pd.DataFrame(
        {
            f"{setting}{suffix}": wide[(name, setting)]
            for name, suffix in (("mean", ""), ("lowest", "_lowest"))
            for setting in SETTINGS
        }
    )
    by_split = blocks.set_index(heads)["mean"].unstack("setting").reindex(columns=SETTINGS)
    rows["gain"] = (by_split["tuned"] - by_split["default"]).groupby(["method", "algorithm"]).mean()
    rows = rows.reset_index()
    rows = rows[COLUMNS].merge(floors, on="method", how="left").merge(test_samples(runs), on="method", how="left")
    return rows.sort_values("tuned", ascending=False, kind="stable").reset_index(drop=True)


def test_samples(runs: pd.DataFrame) -> pd.DataFrame:
    """[method, samples, tail_samples]: the test samples of the tuned runs, or of those with the defaults if none ended.

    Their number decides how many decimals an accuracy has.
    """
    by_setting = runs.groupby(["method", "setting"])[["samples", "tail_samples"]].sum()
    return by_setting.groupby("method").last().reset_index()  # "tuned" sorts after "default"


def band(runs: pd.DataFrame) -> tuple[float, float] | None:
    """The 95 % interval of the tuned LocalTrain over splits; None without it or with one split."""
    own = runs[(runs["algorithm"] == REFERENCE) & (runs["setting"] == "tuned")]
    found = t_interval(own.groupby("split")["mean"].mean().to_numpy(float))
    return (found.low, found.high) if np.isfinite([found.low, found.high]).all() else None


def finding(df: pd.DataFrame) -> str:
    """``Tuning helped CGPFL most, by 42.3 points, and LocalTrain least, by 1.5 points.``"""
    gains = df.set_index("method")["gain"].dropna().sort_values(ascending=False, kind="stable")
    samples = float(df["samples"].min())
    if gains.empty:
        return "No method has results with its defaults and its chosen settings on the same split."
    if gains.max() <= 0:
        return "No method gained from tuning."
    gained = points(gains.iloc[0], samples)
    if len(gains) == 1:
        return f"Tuning helped {gains.index[0]} by {gained}."
    most = f"Tuning helped {gains.index[0]} most, by {gained}"
    least = gains.iloc[-1]
    if least < 0:
        return f"{most}; {gains.index[-1]} lost {points(-least, samples)}."
    return f"{most}, and {gains.index[-1]} least, by {points(least, samples)}."


def figure(df: pd.DataFrame, share: float, reference: tuple[float, float] | None = None) -> go.Figure:
    """Per method a ring at the defaults and a filled mark at the choice; below, the same for the lowest ``share``.

    A vertical tick marks the chance floor of the lowest clients, a band the interval of LocalTrain (``reference``).
    """
    look, fig, tail = looks(df), go.Figure(), f"lowest {100 * share:g} %"
    own = [look[method] for method in df["method"]]
    if reference is not None:
        fig.add_vrect(
            x0=100 * reference[0], x1=100 * reference[1], fillcolor=translucent(theme().muted, 0.16), line_width=0
        )
    _pair(fig, df, own, ("default", "tuned"), 0.0, 12, "mean")
    _pair(fig, df, own, ("default_lowest", "tuned_lowest"), TAIL_BELOW, 8, tail)
    if df["floor"].notna().any():
        fig.add_scatter(
            x=joined(100 * df["floor"], 100 * df["floor"]),
            y=joined(df.index + TAIL_BELOW - TICK, df.index + TAIL_BELOW + TICK),
            mode="lines",
            cliponaxis=False,
            line={"color": theme().ink, "width": 1.8},
            hoverinfo="text",
            hovertext=[text for row in df.itertuples() for text in [_floor(row, tail)] * 3],
        )
    base_layout(fig, height=110 + ROW_PX * max(len(df), 2))
    known = 100 * df[DRAWN].to_numpy(float)
    low, high = np.nanmin(known), np.nanmax(known)
    pad = 0.05 * (high - low) + 0.5
    fig.update_xaxes(title_text="test accuracy, %", range=[low - pad, high + pad])
    fig.update_yaxes(
        tickvals=list(range(len(df))),
        ticktext=list(df["method"]),
        range=[len(df) - 0.3, -0.6],
        ticks="",
        gridcolor=translucent(theme().line, 0.6),
    )
    return fig.update_layout(showlegend=False)


def _pair(
    fig: go.Figure, df: pd.DataFrame, own: list[Look], columns: tuple[str, str], below: float, size: int, what: str
) -> None:
    """A line from the defaults to the choice, with its marks."""
    before, after = columns
    at = df.index + below
    fig.add_scatter(
        x=joined(100 * df[before], 100 * df[after]),
        y=joined(at, at),
        mode="lines",
        hoverinfo="skip",
        line={"color": theme().muted, "width": 1.2},
    )
    for column, word in ((before, "defaults"), (after, "tuned")):
        is_tuned = column == after
        fig.add_scatter(
            x=100 * df[column],
            y=at,
            mode="markers",
            cliponaxis=False,
            customdata=list(df["method"]),
            hoverinfo="text",
            hovertext=[_hover(row, column, f"{what}, {word}") for row in df.itertuples()],
            marker={
                "symbol": [look.symbol if is_tuned else f"{look.symbol}-open" for look in own],
                "size": size,
                "color": [look.color for look in own],
                "line": {"width": 1.6, "color": [look.color for look in own]},
            },
        )


def _hover(row: Any, column: str, what: str) -> str:
    samples = row.tail_samples if column.endswith("_lowest") else row.samples
    return f"{row.method}: {what} {percent(getattr(row, column), samples=samples)}"


def _floor(row: Any, tail: str) -> str:
    low, high = (percent(value, 1) for value in (row.floor_low, row.floor_high))
    return f"{row.method}: {tail} by chance alone {percent(row.floor, 1)}<br>95 % of draws from {low} to {high}"


def note(share: float, clients: int, has_band: bool, are_benign: bool = False) -> str:
    """What the marks mean."""
    tail = f"lower row: lowest {100 * share:g} % of {in_words(clients, are_benign)}"
    band_note = "; band: 95 % interval of the tuned LocalTrain over splits" if has_band else ""
    return f"Ring: defaults; filled: chosen settings; {tail}, vertical tick: its chance floor{band_note}."
