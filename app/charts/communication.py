"""Communication against computation: the cost of reaching a target as local work per round grows.

After figure 2 of Yu et al., The Effect of Personalization in FedProx: more local steps need fewer rounds, up to a
point, and more gradient evaluations.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.cost import MAX_NAMED
from app.charts.plot import log_axis
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout
from app.charts.plot.point_labels import Point, name_points
from app.data.comparison import doubt, per_method, ranking, unit_of
from app.wording import capital, count, names, number, plural

CommunicationCost = Literal["rounds", "megabytes", "simulated_s"]
TITLES: dict[CommunicationCost, str] = {
    "rounds": "rounds",
    "megabytes": "megabytes, both ways",
    "simulated_s": "simulated seconds",
}
COSTS = ("rounds", "megabytes", "gradient_evaluations", "simulated_s")
WORK = {"inner_steps", "training.local_steps", "training.local_epochs"}  # the local work of a round


def reached(series: pd.DataFrame, target: float, falls: bool = False) -> dict[int, int]:
    """[run, round, value] -> the first round in which each run reaches the target; runs that never do are omitted.

    A value reaches the target if it is at least as high, or at most as high where it ``falls``.
    """
    there = series[(series["value"] <= target) if falls else (series["value"] >= target)]
    return {int(run): int(at) for run, at in there.groupby("run")["round"].min().items()}


def data(runs: pd.DataFrame, until: Mapping[int, int], costs: pd.DataFrame) -> pd.DataFrame:
    """A row per method: the mean cost to reach the target, over the ``seeds`` of all ``seeds_run`` that reached it.

    If the data have seeds of their own, the ``unit`` is ``split``: both count runs, and ``splits`` the splits of these.

    ``runs`` [run, method, algorithm, split, seed, options]; ``costs`` [run, megabytes, gradient_evaluations], with
    simulated_s if runs record it; it counts only if all do.

    ``is_complete``: every seed reached it. ``path`` is equal for methods that differ only in local work per round, and
    sorted by it. ``few_<cost>``: the complete methods that may need the least of this cost (``comparison.ranking``).
    """
    there = runs.merge(costs, on="run").assign(rounds=lambda rows: rows["run"].map(until))
    known = [cost for cost in COSTS if cost in there and there[cost].notna().all()]
    rows = per_method(there, known)
    given = runs.drop_duplicates("method").set_index("method")["options"]
    seeds_run = runs.groupby("method").size()
    rows["path"] = [f"{r.algorithm} {_without_work(given[r.method])}" for r in rows.itertuples()]
    rows["splits"], rows["unit"] = rows["seeds"], unit_of(runs)
    rows["seeds"] = rows["method"].map(there.groupby("method").size())
    rows["seeds_run"] = rows["method"].map(seeds_run)
    rows["is_complete"] = rows["seeds"] == rows["seeds_run"]
    whole = there[there["method"].isin(rows.loc[rows["is_complete"], "method"])]
    for cost in known:
        least = ranking(whole, cost, is_higher_better=False).tied if len(whole) else ()
        rows[f"few_{cost}"] = rows["method"].isin(least)
    few = [f"few_{cost}" for cost in known]
    columns = ["method", "algorithm", "path", *known, "seeds", "seeds_run", "is_complete", "splits", "unit", *few]
    return rows[columns].sort_values(["path", "gradient_evaluations"], kind="stable").reset_index(drop=True)


def figure(df: pd.DataFrame, cost: CommunicationCost, target: str) -> go.Figure:
    """A marker per method, joined if they differ only in local work per round; hollow if a run missed the target."""
    fig, look = go.Figure(), looks(df)
    for _, own in df.groupby("path", sort=False):
        style, whole = look[own["method"].iloc[0]], own[own["is_complete"]]
        fig.add_scatter(
            x=whole["gradient_evaluations"],
            y=whole[cost],
            mode="lines",
            hoverinfo="skip",
            cliponaxis=False,
            line={"color": style.color, "width": 1.2},
        )
        fig.add_scatter(
            x=own["gradient_evaluations"],
            y=own[cost],
            mode="markers",
            text=own["method"],
            cliponaxis=False,
            marker={
                "size": 11,
                "symbol": [style.symbol + ("" if r.is_complete else "-open") for r in own.itertuples()],
                "color": [look[m].color for m in own["method"]],
            },
            customdata=[f"{r.seeds} of {plural(r.seeds_run, _counted(df))}" for r in own.itertuples()],
            hovertemplate=f"%{{text}}<br>%{{y:,.4g}} {TITLES[cost]}, %{{x:,.4g}} gradient evaluations<br>"
            "mean of %{customdata}<extra></extra>",
        )
    base_layout(fig, height=370)
    is_log = {axis: bool(len(df) and (df[axis] > 0).all()) for axis in ("gradient_evaluations", cost)}
    scaled = {axis: np.log10(df[axis]) if is_log[axis] else df[axis] for axis in is_log}
    nearest = set(df.sort_values(cost, kind="stable")["method"][:MAX_NAMED])
    name_points(
        fig,
        [
            Point(m if m in nearest else "", scaled["gradient_evaluations"][i], scaled[cost][i], look[m].color)
            for i, m in df["method"].items()
        ],
    )
    fig.update_xaxes(title_text=f"gradient evaluations until {target}", rangemode="tozero")
    fig.update_yaxes(title_text=f"{TITLES[cost]} until {target}", rangemode="tozero")
    for axis, name in ((fig.layout.xaxis, "gradient_evaluations"), (fig.layout.yaxis, cost)):
        if is_log[name]:
            log_axis.apply(axis, df[name].min(), df[name].max())
    return fig.update_layout(showlegend=False)


def finding(df: pd.DataFrame, cost: CommunicationCost, target: str, is_ranked: bool = True) -> str:
    """Name the method with the least of each cost, among those that reach the target with every run.

    Methods that are not ranked are listed.
    """
    whole = df[df["is_complete"]]
    if df.empty:
        return f"No method reaches {target}."
    if whole.empty:
        return f"No method reaches {target} with every {_counted(df)}."
    if not is_ranked:
        each = names((f"{m} ({number(v)})" for m, v in zip(whole["method"], whole[cost], strict=True)), MAX_NAMED)
        return f"{capital(TITLES[cost])} to {target}: {each}."
    fewest = f"Fewest {TITLES[cost]} to {target}: {_least(whole, cost, number)}"
    return f"{fewest}. Fewest gradient evaluations: {_least(whole, 'gradient_evaluations', count)}."


def _least(whole: pd.DataFrame, cost: str, write: Callable[[float], str]) -> str:
    """``m5 (20); m1 may need as few``."""
    least = whole.loc[whole[cost] == whole[cost].min(), "method"]
    others = [method for method in whole.loc[whole[f"few_{cost}"], "method"] if method not in set(least)]
    unsure = doubt(int(whole["splits"].max()), others, unit=whole["unit"].iloc[0]) if len(whole) > len(least) else ""
    return f"{names(least)} ({write(whole[cost].min())}){unsure}"


def missed(methods: list[str], df: pd.DataFrame) -> str:
    """Name the methods that never reach the target, and those that miss it with some run."""
    never = [name for name in methods if name not in set(df["method"])]
    partly = df.loc[~df["is_complete"], "method"]
    parts = [f"Target never reached: {names(never)}."] if never else []
    if len(partly):
        parts.append(f"Hollow, not reached with every {_counted(df)}: {names(partly)}.")
    return " ".join(parts)


def _counted(df: pd.DataFrame) -> str:
    """What ``seeds`` counts: ``seed``, or ``run`` where a split may have several."""
    return "seed" if (df["unit"] == "seed").all() else "run"


def _without_work(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in WORK}
