"""Mean accuracy and lowest 5 % of each method against the settings of one dial: what each setting costs."""

import textwrap
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.charts.plot.bands import whiskers
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout
from app.data.comparison import per_method, per_run
from app.wording import percent, percent_pm, signed_points

MAX_LINES = 12
LETTERS = 15  # in a line of a tick label
MAX_UPRIGHT = 5  # settings whose labels fit side by side
LEGEND_PX, SLANTED_PX = 20, 90  # of a row of the legend, of slanted labels
PANELS = {"mean": ("mean, %", "samples"), "lowest": ("lowest {tail} %, %", "tail_samples")}


def data(clients: pd.DataFrame, share: float) -> pd.DataFrame:
    """[method, algorithm, setting, run, split, seed, client, accuracy, test_size] -> a row per method and setting.

    [method, algorithm, setting, mean, mean_pm, lowest, lowest_pm, seeds, clients, tail, samples, tail_samples], by
    setting in their order of appearance.
    """
    parts = [
        per_method(per_run(own, share), ("mean", "lowest")).assign(setting=setting)
        for setting, own in clients.groupby("setting", sort=False)
    ]
    counts = ["seeds", "clients", "tail", "samples", "tail_samples"]
    columns = ["method", "algorithm", "setting", "mean", "mean_pm", "lowest", "lowest_pm", *counts]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def figure(df: pd.DataFrame, share: float) -> go.Figure:
    """Two panels over the settings, at most MAX_LINES methods; a method's line skips the settings that it lacks."""
    fig, look = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.06), looks(df)
    place = {setting: i for i, setting in enumerate(dict.fromkeys(df["setting"]))}
    for row, (column, (title, samples)) in enumerate(PANELS.items(), start=1):
        for method in drawn(df):
            own, style = df[df["method"] == method], look[method]
            fig.add_scatter(
                x=own["setting"].map(place),
                y=100 * own[column],
                mode="lines+markers",
                name=method,
                legendgroup=method,
                showlegend=row == 1,
                cliponaxis=False,
                error_y=whiskers(100 * own[f"{column}_pm"], style.color),
                line={"color": style.color, "dash": style.dash, "width": 1.8},
                marker={"symbol": style.symbol, "size": 9, "color": style.color},
                text=[percent_pm(r[column], r[f"{column}_pm"], samples=r[samples]) for _, r in own.iterrows()],
                customdata=own["setting"],
                hovertemplate=f"{method}, %{{customdata}}<br>{column} %{{text}}<extra></extra>",
                row=row,
                col=1,
            )
        fig.update_yaxes(title_text=title.format(tail=f"{100 * share:g}"), nticks=5, row=row, col=1)
    is_many = len(place) > MAX_UPRIGHT
    base_layout(fig, height=430 + LEGEND_PX * (len(drawn(df)) // 2) + (SLANTED_PX if is_many else 0))
    labels = list(place) if is_many else ["<br>".join(textwrap.wrap(setting, LETTERS)) for setting in place]
    for row in (1, 2):
        fig.update_xaxes(
            range=[-0.3, len(place) - 0.7],
            tickvals=list(place.values()),
            ticktext=labels,
            tickangle=-45 if is_many else 0,
            showticklabels=row == 2,
            row=row,
            col=1,
        )
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"}
    return fig.update_layout(showlegend=len(drawn(df)) > 1, legend=legend)


def drawn(df: pd.DataFrame) -> list[str]:
    """The methods with a line."""
    return list(dict.fromkeys(df["method"]))[:MAX_LINES]


def falls(df: pd.DataFrame, off: str) -> pd.DataFrame:
    """[method, setting, from_mean, to_mean, from_lowest, to_lowest, ...]: each setting against off, steepest first.

    Sorted by the fall of the lowest clients. Methods without ``off`` are left out.
    """
    base = df[df["setting"] == off]
    both = df[df["setting"] != off].merge(base[["method", "mean", "lowest"]], on="method", suffixes=("", "_off"))
    return both.assign(fall=both["lowest_off"] - both["lowest"]).sort_values("fall", ascending=False, kind="stable")


def finding(df: pd.DataFrame, off: str, share: float, who: str) -> str:
    """``FedAvg with Krum pays most: lowest 5 % 24.3 % instead of 74.9 %, mean 56.0 % instead of 86.1 %.``

    ``who`` are the clients, as in ``32 benign clients``.
    """
    found = falls(df, off)
    if found.empty:
        return f"Accuracy of {who} at each setting."
    worst = found.iloc[0]
    tail = f"lowest {100 * share:g} %"
    if worst["fall"] <= 0:
        return f"No setting lowers the {tail} of any method ({who})."
    of = [
        f"{words} {percent(worst[name], 1, samples=worst[samples])} instead of "
        f"{percent(worst[f'{name}_off'], 1, samples=worst[samples])}"
        for name, words, samples in (("lowest", tail, "tail_samples"), ("mean", "mean", "samples"))
    ]
    return f"{worst['method']} with {worst['setting']} pays most: {', '.join(of)} ({who})."


def left_out(df: pd.DataFrame) -> Sequence[str]:
    """The methods without a line."""
    return list(dict.fromkeys(df["method"]))[MAX_LINES:]


def change(df: pd.DataFrame, method: str, setting: str, off: str) -> str:
    """``mean −12.5 points, lowest 5 % −17.9 points`` of one method and setting; empty without ``off``."""
    found = falls(df, off)
    own = found[(found["method"] == method) & (found["setting"] == setting)]
    if own.empty:
        return ""
    row = own.iloc[0]
    return f"mean {_signed(row, 'mean', 'samples')}, lowest {_signed(row, 'lowest', 'tail_samples')}"


def _signed(row: pd.Series, name: str, samples: str) -> str:
    gap = float(row[name] - row[f"{name}_off"])
    return f"{signed_points(gap, float(row[samples]), 1)} points" if gap else "unchanged"
