"""Communication against computation: what it takes to get as far as a target, as each round does more work at home.

After figure 2 of document 004: more local steps need fewer rounds, up to a point, and more gradient evaluations.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app import log_axis
from app.charts.cost import MOST_NAMED
from app.comparison import per_method
from app.method_looks import looks
from app.palette import base_layout, color, style_of
from app.point_names import Point, name_points
from app.wording import count, names, number

Spent = Literal["rounds", "megabytes"]
TITLES: dict[Spent, str] = {"rounds": "rounds", "megabytes": "megabytes, both ways"}
WORK = {"inner_steps", "training.local_steps", "training.local_epochs"}  # what a round does at home


def reached(series: pd.DataFrame, target: float, falls: bool = False) -> dict[int, int]:
    """[run, round, value] -> the round in which each run first was at the target; runs that never were are left out.

    At the target is at least it, or at most where the value ``falls``.
    """
    there = series[(series["value"] <= target) if falls else (series["value"] >= target)]
    return {int(run): int(at) for run, at in there.groupby("run")["round"].min().items()}


def data(runs: pd.DataFrame, until: Mapping[int, int], spent: pd.DataFrame) -> pd.DataFrame:
    """A row a method: what it took until the target, mean over the seeds that were ``reached``.

    ``runs`` [run, method, algorithm, seed, options], ``spent`` [run, megabytes, gradient_evaluations] up to then.

    ``path`` is equal for methods that differ in nothing but the work of a round; in its order, cheapest work first.
    """
    there = runs.merge(spent, on="run").assign(rounds=lambda rows: rows["run"].map(until))
    rows = per_method(there, ("rounds", "megabytes", "gradient_evaluations"))
    given = runs.drop_duplicates("method").set_index("method")["options"]
    asked = runs.groupby("method").size()
    rows["path"] = [f"{r.algorithm} {_without_work(given[r.method])}" for r in rows.itertuples()]
    rows["asked"] = rows["method"].map(asked)
    columns = ["method", "algorithm", "path", "rounds", "megabytes", "gradient_evaluations", "seeds", "asked"]
    return rows[columns].sort_values(["path", "gradient_evaluations"], kind="stable").reset_index(drop=True)


def figure(df: pd.DataFrame, spent: Spent, target: str) -> go.Figure:
    """A mark a method, joined where they differ in the work of a round only; down and left is better."""
    fig, look = go.Figure(), looks(df)
    for _, own in df.groupby("path", sort=False):
        style = style_of(own["algorithm"].iloc[0])
        fig.add_scatter(
            x=own["gradient_evaluations"], y=own[spent], mode="lines+markers", text=own["method"], cliponaxis=False,
            line={"color": color(style), "width": 1.2},
            marker={"size": 11, "symbol": style.symbol, "color": [look[m].color for m in own["method"]]},
            hovertemplate=f"%{{text}}<br>%{{y:,.4g}} {TITLES[spent]}, %{{x:,.4g}} gradient evaluations<extra></extra>",
        )  # fmt: skip
    base_layout(fig, height=430)
    is_log = {axis: bool(len(df) and (df[axis] > 0).all()) for axis in ("gradient_evaluations", spent)}
    scaled = {axis: np.log10(df[axis]) if is_log[axis] else df[axis] for axis in is_log}
    nearest = set(df.sort_values(spent, kind="stable")["method"][:MOST_NAMED])
    name_points(fig, [
        Point(m if m in nearest else "", scaled["gradient_evaluations"][i], scaled[spent][i], look[m].color)
        for i, m in df["method"].items()
    ])  # fmt: skip
    fig.update_xaxes(title_text=f"gradient evaluations until {target}", rangemode="tozero")
    fig.update_yaxes(title_text=f"{TITLES[spent]} until {target}", rangemode="tozero")
    for axis, name in ((fig.layout.xaxis, "gradient_evaluations"), (fig.layout.yaxis, spent)):
        if is_log[name]:
            log_axis.say(axis, df[name].min(), df[name].max())
    return fig.update_layout(showlegend=False)


def finding(df: pd.DataFrame, spent: Spent, target: str) -> str:
    """Who needs least of either."""
    if df.empty:
        return f"No method gets to {target}."
    fewest, cheapest = (list(df.loc[df[what] == df[what].min(), "method"]) for what in (spent, "gradient_evaluations"))
    needs = "needs" if len(fewest) == 1 else "need"
    said = f"{names(fewest)} {needs} the fewest {TITLES[spent]} to {target} ({number(df[spent].min())})"
    work = count(df["gradient_evaluations"].min())
    if fewest == cheapest:
        return f"{said}, and the fewest gradient evaluations ({work})."
    return f"{said}, {names(cheapest)} the fewest gradient evaluations ({work})."


def missed(methods: list[str], df: pd.DataFrame) -> str:
    """Who never gets there, and who does not with every seed."""
    never = [name for name in methods if name not in set(df["method"])]
    partly = df.loc[df["seeds"] < df["asked"], "method"]
    said = [f"Never: {names(never)}."] if never else []
    return " ".join([*said, *([f"Not with every seed: {names(partly)}."] if len(partly) else [])])


def _without_work(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in WORK}
