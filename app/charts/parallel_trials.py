"""The trials of one method: each is a line through its parameters, colored by validation accuracy."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from app.charts.plot.annotations import annotate
from app.charts.plot.palette import base_layout, is_dark, theme
from app.charts.tuning_axes import Axis, settings_in_words, value_in_words
from app.wording import percent, plural

COLORS = 8  # groups of trials by accuracy
ACCURACY = "validation"
OUTSIDE = 0.06  # where a default outside its range is drawn


def data(trials: pd.DataFrame, axes: Sequence[Axis]) -> pd.DataFrame:
    """[trial, value, is_default, is_chosen, settings] -> a row per trial and parameter, in the order of the axes.

    [trial, parameter, symbol, setting, place, value, is_default, is_chosen]. ``place`` is from 0 to 1 in the range of
    the parameter, NaN for a setting that is a word.
    """
    rows = [
        {
            "trial": trial.trial,
            "parameter": axis.name,
            "symbol": axis.symbol,
            "setting": value_in_words(trial.settings[axis.name]),
            "place": axis.place(trial.settings[axis.name]),
            "value": trial.value,
            "is_default": trial.is_default,
            "is_chosen": trial.is_chosen,
        }
        for trial in trials.itertuples()
        for axis in axes
        if axis.name in trial.settings
    ]
    columns = ["trial", "parameter", "symbol", "setting", "place", "value", "is_default", "is_chosen"]
    return pd.DataFrame(rows, columns=columns)


def finding(trials: pd.DataFrame, axes: Sequence[Axis], method: str) -> str:
    """``Ditto: η = 0.12, λ = 0.7 was chosen of 16 settings, at 96.2 % on validation; ...``, with a note on the edge."""
    chosen = trials[trials["is_chosen"]]
    diverged = int(trials["value"].isna().sum())
    lost = f" {plural(diverged, 'setting')} diverged or failed." if diverged else ""
    if chosen.empty:
        return f"{method}: no setting is chosen yet, of {plural(len(trials), 'trial')}.{lost}"
    best = chosen.iloc[0]
    words = "the default settings" if best["is_default"] else settings_in_words(axes, best["settings"])
    was = "were" if best["is_default"] else "was"
    edge = [a.symbol for a in axes if a.name in best["settings"] and a.is_at_the_edge(best["settings"][a.name])]
    widen = f" {' and '.join(edge)}: at the edge of the range; widen it." if edge and not best["is_default"] else ""
    at = f"at {percent(best['value'], 1)} on validation"
    return f"{method}: {words} {was} chosen of {plural(len(trials), 'setting')}, {at}.{widen}{lost}"


def figure(df: pd.DataFrame, axes: Sequence[Axis]) -> go.Figure:
    """Thin lines per trial, stronger is better; the default dashed and the choice thick, both with their values."""
    fig, drawn = go.Figure(), [axis for axis in axes if axis.name in set(df["parameter"])]
    at = {axis.name: i for i, axis in enumerate(drawn)}
    last = len(drawn)
    values = df.drop_duplicates("trial")["value"].to_numpy(float)
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    lines: dict[int, list[pd.DataFrame]] = {}
    for _, own in df.groupby("trial"):
        if not own["is_chosen"].iloc[0] and not own["is_default"].iloc[0]:
            lines.setdefault(_bin(own["value"].iloc[0], low, high), []).append(own)
    for group in sorted(lines):
        _line(fig, lines[group], at, last, low, high, color=_color(group), width=1.6)
    for column, dash, width, color in (
        ("is_default", "dash", 2.6, theme().muted),
        ("is_chosen", "solid", 3.6, theme().accent),
    ):
        own = df[df[column]]
        if len(own):
            _line(fig, [own], at, last, low, high, color=color, width=width, dash=dash)
    base_layout(fig, height=400)
    ends = [("bottom", -0.02, 0), ("top", 1.02, 1)]
    annotate(
        fig,
        (
            {
                "x": i,
                "y": y,
                "text": text,
                "showarrow": False,
                "yanchor": "top" if side == "bottom" else "bottom",
                "font": {"size": 11, "color": theme().muted},
            }
            for i, words in enumerate([*(axis.ends for axis in drawn), (percent(low, 1), percent(high, 1))])
            for (side, y, which) in ends
            for text in [words[which]]
        ),
    )
    for i in range(last + 1):
        fig.add_shape(type="line", x0=i, x1=i, y0=0, y1=1, line={"color": theme().line, "width": 1}, layer="below")
    titles = [*(axis.symbol for axis in drawn), ACCURACY]
    fig.update_xaxes(tickvals=list(range(last + 1)), ticktext=titles, range=[-0.2, last + 0.2], showline=False)
    return fig.update_yaxes(visible=False, range=[-0.12, 1.12]).update_layout(showlegend=False)


def _line(
    fig: go.Figure,
    trials: Sequence[pd.DataFrame],
    at: dict[str, int],
    last: int,
    low: float,
    high: float,
    *,
    color: str,
    width: float,
    dash: str = "solid",
) -> None:
    """Trials of one look in one trace, with gaps between them."""
    x, y, texts = list[float | None](), list[float | None](), list[str]()
    for own in trials:
        value = own["value"].iloc[0]
        end = (value - low) / (high - low) if high > low else 0.5
        text = _hover(own)
        x += [*own["parameter"].map(at), last, None]
        y += [*np.clip(own["place"], -OUTSIDE, 1 + OUTSIDE), end if np.isfinite(end) else -OUTSIDE, None]
        texts += [text] * (len(own) + 2)
    fig.add_scatter(
        x=x,
        y=[None if value is None or np.isnan(value) else value for value in y],
        mode="lines+markers",
        marker={"size": 5 if width < 2 else 8, "color": color},
        line={"color": color, "width": width, "dash": dash},
        hovertext=texts,
        hoverinfo="text",
        cliponaxis=False,
    )


def _hover(own: pd.DataFrame) -> str:
    first = own.iloc[0]
    names = [word for column, word in (("is_default", "defaults"), ("is_chosen", "chosen")) if first[column]]
    settings = "<br>".join(f"{row.symbol} = {row.setting}" for row in own.itertuples())
    value = percent(first["value"], 1) if np.isfinite(first["value"]) else "diverged or failed"
    return f"trial {first['trial']}{' (' + ', '.join(names) + ')' if names else ''}<br>{settings}<br>{value}"


def _bin(value: float, low: float, high: float) -> int:
    """The group of a trial by accuracy; those without a value are in the lowest."""
    if not np.isfinite(value):
        return 0
    return min(COLORS - 1, int(COLORS * (value - low) / (high - low))) if high > low else COLORS - 1


def _color(group: int) -> str:
    """Pale for low accuracies, readable on both grounds."""
    ends = [theme().line, "#4BA3DC" if is_dark() else "#0072B2"]
    return str(sample_colorscale(ends, [0.25 + 0.75 * group / (COLORS - 1)])[0])
