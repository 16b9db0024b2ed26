"""How much the choice of one parameter matters: validation accuracy of every trial against its value."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import log_axis
from app.charts.plot.method_styles import Look
from app.charts.plot.palette import base_layout, theme
from app.charts.tuning_axes import Axis, value_in_words
from app.statistics.signed_rank import mean_ranks
from app.wording import percent, plural, points

NEAR = 0.01  # settings within a point of the best are as good for practice
MIN_TRIALS = 4  # with fewer a correlation says nothing


def data(trials: pd.DataFrame, axis: Axis) -> pd.DataFrame:
    """[trial, value, is_default, is_chosen, settings] -> [trial, setting, value, near, is_default, is_chosen].

    By setting. ``near``: within one point of the best trial. Trials whose setting is a word are left out.
    """
    best = trials["value"].max()
    rows = [
        {
            "trial": trial.trial,
            "setting": trial.settings[axis.name],
            "value": trial.value,
            "near": bool(trial.value >= best - NEAR),
            "is_default": trial.is_default,
            "is_chosen": trial.is_chosen,
        }
        for trial in trials.itertuples()
        if axis.name in trial.settings and np.isfinite(axis.place(trial.settings[axis.name]))
    ]
    table = pd.DataFrame(rows, columns=["trial", "setting", "value", "near", "is_default", "is_chosen"])
    if axis.choices:
        return table.assign(setting=table["setting"].map(value_in_words)).reset_index(drop=True)
    return table.sort_values("setting", kind="stable").reset_index(drop=True)


def spearman(df: pd.DataFrame) -> float:
    """The rank correlation of setting and accuracy; NaN for words, few trials or constants."""
    known = df[df["value"].notna()]
    if len(known) < MIN_TRIALS or not pd.api.types.is_numeric_dtype(known["setting"]):
        return float("nan")
    one, other = mean_ranks(known["setting"].to_numpy(float)), mean_ranks(known["value"].to_numpy(float))
    if not one.std() or not other.std():
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def finding(df: pd.DataFrame, symbol: str, method: str) -> str:
    """``Ditto: Spearman's ρ of λ and accuracy is −0.35; 9 of 16 settings are within a point of the best; ...``"""
    near, all_of = int(df["near"].sum()), len(df)
    if not df["value"].notna().any():
        return f"{method}: no trial has a validation accuracy."
    rho = spearman(df)
    words = f"Spearman's ρ of {symbol} and accuracy is {rho:+.2f}; ".replace("-", "−") if np.isfinite(rho) else ""
    gain = df.loc[df["is_chosen"], "value"].max() - df.loc[df["is_default"], "value"].max()
    worth = f"; tuning gained {points(gain)} over the defaults on validation" if gain > 0 else ""
    are_near = f"{near} of {plural(all_of, 'setting')} {'is' if near == 1 else 'are'} within a point of the best"
    return f"{method}: {words}{are_near}{worth}."


def figure(df: pd.DataFrame, axis: Axis, look: Look) -> go.Figure:
    """A dot per trial; a ring at the defaults, a star at the choice; dotted: a point below the best."""
    fig, known = go.Figure(), df[df["value"].notna()]
    fig.add_scatter(
        x=known["setting"],
        y=100 * known["value"],
        mode="markers",
        cliponaxis=False,
        marker={
            "symbol": np.select([known["is_chosen"], known["is_default"]], ["star", "circle-open"], "circle"),
            "size": np.select([known["is_chosen"], known["is_default"]], [17, 13], 9),
            "color": look.color,
            "line": {"width": np.where(known["is_default"] & ~known["is_chosen"], 2, 0), "color": look.color},
        },
        hoverinfo="text",
        hovertext=[
            f"trial {row.trial}: {axis.symbol} = {value_in_words(row.setting)}<br>{percent(row.value, 1)}"
            for row in known.itertuples()
        ],
    )
    base_layout(fig, height=340)
    if len(known):
        line = {"color": theme().muted, "width": 1, "dash": "dot"}
        fig.add_hline(y=100 * (known["value"].max() - NEAR), line=line)
    fig.update_xaxes(title_text=axis.symbol)
    if axis.is_log and len(known) and not axis.choices:
        settings = known["setting"].astype(float)
        log_axis.apply(fig.layout.xaxis, min(axis.low, settings.min()), max(axis.high, settings.max()))
    elif not axis.choices and len(known):
        settings = known["setting"].astype(float)
        low, high = min(axis.low, settings.min()), max(axis.high, settings.max())
        fig.update_xaxes(range=[low - 0.05 * (high - low), high + 0.05 * (high - low)])
    fig.update_yaxes(title_text="validation accuracy, %")
    return fig.update_layout(showlegend=False)
