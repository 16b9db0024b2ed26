"""Accuracy by one hyper-parameter (λ, K, ...): the best starred, FedAvg and LocalTrain as dotted lines."""

from collections.abc import Mapping
from numbers import Real
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.bands import whiskers
from app.charts.plot.line_labels import End, label_ends
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout
from app.data.comparison import REFERENCES, doubt, method_name, per_method, ranking
from app.wording import number, percent_pm

MIN_VALUES = 3
SETTING = ("dataset", "partition", "model")  # the setting of a comparison; no value of it is best


def options(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a sweep may vary in a run: the method's own options and ``training.<name>``; also what separates sweeps:
    ``dataset.<name>``, ``partition.<name>``, ``model.<name>``.
    """
    own = {k: v for k, v in config["algorithm"].items() if k != "name"}
    return own | {f"{part}.{k}": v for part in ("training", *SETTING) for k, v in config[part].items()}


def parameters(runs: pd.DataFrame) -> list[str]:
    """The numbers with at least three values for some algorithm among ``runs`` [method, algorithm, options, ...]."""
    found: dict[str, None] = {}
    for _, own in runs.groupby("algorithm", sort=False):
        values: dict[str, set[float]] = {}
        for shared in _shared_options(own).values():
            for name, value in shared.items():
                if _is_number(value) and not name.startswith(SETTING):
                    values.setdefault(name, set()).add(float(value))
        found.update(dict.fromkeys(name for name, seen in values.items() if len(seen) >= MIN_VALUES))
    return list(found)


def data(runs: pd.DataFrame, parameter: str) -> pd.DataFrame:
    """[method, algorithm, split, seed, mean, lowest, options] -> a row per method, and whether it is its series' best.

    ``series`` names the algorithm and whatever else is varied in it; ``value`` is NaN for the references, which do not
    have the parameter as a number: FedAvg, LocalTrain, and methods that chose it themselves (column ``itself``). With a
    column ``validation`` that all swept runs have, the best is chosen on that, else on the test data that is shown.
    ``may_be_best``: the values that may be as good (``comparison.ranking``).
    """
    runs = runs.assign(**{name: np.nan for name in ("itself", "validation") if name not in runs})
    rows = per_method(runs, ("mean", "lowest", "itself", "validation"))
    given = _shared_options(runs)
    values = [given[method].get(parameter) for method in rows["method"]]
    rows["value"] = [float(value) if _is_number(value) else np.nan for value in values]
    swept = rows.groupby("algorithm")["value"].transform("nunique") >= MIN_VALUES
    rows.loc[~swept, "value"] = np.nan
    alone = rows.groupby("algorithm")["method"].transform("size") == 1
    known = rows["algorithm"].isin(REFERENCES) | rows["itself"].notna()
    rows = rows[(swept & rows["value"].notna()) | (alone & known)].reset_index(drop=True)
    rows["series"] = [_series(row, runs, given, parameter) for row in rows.itertuples()]
    by = "validation" if rows.loc[rows["value"].notna(), "validation"].notna().all() else "mean"
    rows["best"] = (rows[by] == rows.groupby("series")[by].transform("max")) & rows["value"].notna()
    rows["may_be_best"] = False
    for _, own in rows[rows["value"].notna()].groupby("series"):
        tied = ranking(runs[runs["method"].isin(own["method"])], by).tied
        rows.loc[own.index, "may_be_best"] = own["method"].isin(tied)
    rows["chosen_on"] = "validation" if by == "validation" else "test"
    columns = [
        "series",
        "method",
        "algorithm",
        "value",
        "itself",
        "mean",
        "mean_pm",
        "lowest",
        "lowest_pm",
        "seeds",
        "best",
        "may_be_best",
        "chosen_on",
        "samples",
        "tail_samples",
    ]
    return rows[columns].sort_values(["series", "value"], kind="stable").reset_index(drop=True)


def figure(df: pd.DataFrame, symbol: str, title: str = "") -> go.Figure:
    """Mean solid and lowest tail dashed; a star at the best of each series; the references named at the right.

    ``title`` is the axis title, by default ``symbol``.
    """
    swept, references = df[df["value"].notna()], df[df["value"].isna()]
    look = looks(df.assign(method=df["series"]))
    fig = go.Figure()
    for series, own in swept.groupby("series", sort=False):
        _series_lines(fig, str(series), own, look[series].color, symbol)
    for row in references[references["itself"].notna()].itertuples():
        fig.add_scatter(
            x=[row.itself],
            y=[100 * row.mean],
            mode="markers",
            cliponaxis=False,
            showlegend=False,
            marker={"symbol": "star", "size": 17, "color": look[row.series].color},
            hovertemplate=f"{row.method} chose {symbol} = %{{x:g}}<br>mean {_value(row)}<extra></extra>",
        )
    ends = [End(str(r.method), None, 100 * r.mean, look[r.series].color) for r in references.itertuples()]
    for end in ends:
        fig.add_hline(y=end.y, line={"color": end.color, "width": 1.2, "dash": "dot"})
    base_layout(fig, height=430)
    reach = swept["mean"] + swept["mean_pm"].fillna(0)
    shown = 100 * pd.concat([reach, swept["lowest"], references["mean"]])
    pad = max(1.0, 0.06 * (shown.max() - shown.min()))
    label_ends(fig, ends, shown.min() - pad, shown.max() + pad)
    values = sorted(swept["value"].unique())
    fig.update_xaxes(title_text=title or symbol, type="log" if _is_log(swept["value"]) else "linear")
    if len(values) <= 12:
        fig.update_xaxes(tickvals=values, ticktext=[f"{v:g}" for v in values])
    fig.update_yaxes(title_text="test accuracy, %", range=[shown.min() - pad, shown.max() + pad])
    several = swept["series"].nunique() > 1
    return fig.update_layout(showlegend=several, legend={"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0})


def heading(df: pd.DataFrame, symbol: str) -> str:
    """``λ = 0.1 is best for Ditto``, of the most accurate series; ``ranks first`` where it is not clear."""
    best = df[df["best"]].sort_values("mean").iloc[-1]
    series = df[df["series"] == best["series"]]
    is_clear = series["may_be_best"].sum() == 1
    return f"{symbol} = {number(best['value'])} {'is best' if is_clear else 'ranks first'} for {best['series']}"


def finding(df: pd.DataFrame, symbol: str, unit: str = "seed") -> str:
    """``Ditto is best at λ = 0.1 with 97.41 ± 0.12 % (chosen on test); λ = 1 may be as good.`` for every series.

    ``unit`` is what the column ``seeds`` counts (``comparison.unit_of``).
    """
    best, itself = df[df["best"]].drop_duplicates("series"), df[df["itself"].notna()]
    return " ".join(
        [
            *(_finding_of(df[df["series"] == row.series], row, symbol, unit) for row in best.itertuples()),
            *(
                f"{row.method} chose {symbol} = {number(row.itself)} itself and reaches {_value(row)}."
                for row in itself.itertuples()
            ),
        ]
    )


def _finding_of(series: pd.DataFrame, best: Any, symbol: str, unit: str) -> str:
    value = f"{symbol} = {number(best.value)}"
    others = series.loc[series["may_be_best"] & (series["value"] != best.value), "value"]
    if unsure := doubt(best.seeds, [f"{symbol} = {number(other)}" for other in others], "values", unit):
        return f"For {best.series}, {value} ranks first with {_value(best)} (chosen on {best.chosen_on}){unsure}."
    return f"{best.series} is best at {value} with {_value(best)} (chosen on {best.chosen_on})."


def _value(row: Any) -> str:
    return percent_pm(row.mean, row.mean_pm, samples=row.samples)


def _series_lines(fig: go.Figure, series: str, own: pd.DataFrame, color: str, symbol: str) -> None:
    x, texts = own["value"].to_numpy(float), [_value(row) for row in own.itertuples()]
    lowest = [percent_pm(row.lowest, row.lowest_pm, samples=row.tail_samples) for row in own.itertuples()]
    fig.add_scatter(
        x=x,
        y=100 * own["mean"],
        mode="lines+markers",
        name=series,
        text=texts,
        cliponaxis=False,
        error_y=whiskers(100 * own["mean_pm"], color),
        line={"color": color, "width": 2.2},
        marker_line_width=0,
        marker={"size": np.where(own["best"], 16, 7), "symbol": np.where(own["best"], "star", "circle"), "opacity": 1},
        hovertemplate=f"{series}, {symbol} = %{{x:g}}<br>mean %{{text}}<extra></extra>",
    )
    fig.add_scatter(
        x=x,
        y=100 * own["lowest"],
        mode="lines",
        line={"color": color, "width": 1.2, "dash": "dash"},
        text=lowest,
        hovertemplate=f"{series}, {symbol} = %{{x:g}}<br>lowest %{{text}}<extra></extra>",
        showlegend=False,
    )


def _shared_options(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """method -> the options that are the same in all its runs: in a study, each split chooses its own settings."""
    found = {}
    for method, own in runs.groupby("method", sort=False)["options"]:
        first, *others = own
        found[str(method)] = {k: v for k, v in first.items() if all(other.get(k) == v for other in others)}
    return found


def _series(row: Any, runs: pd.DataFrame, given: Mapping[str, Mapping[str, Any]], parameter: str) -> str:
    """``CGPFL`` or ``CGPFL K=4``: what else is varied in this algorithm besides the parameter."""
    if np.isnan(row.value):
        return str(row.method)
    mine = given[row.method]
    own = [given[method] for method in runs.loc[runs["algorithm"] == row.algorithm, "method"].unique()]
    varied = [k for k in mine if k != parameter and len({str(o.get(k)) for o in own}) > 1]
    return " ".join([method_name(row.algorithm, row.algorithm), *(f"{k.rpartition('.')[2]}={mine[k]}" for k in varied)])


def _is_log(values: pd.Series) -> bool:
    return bool(len(values) and values.min() > 0 and values.max() / values.min() >= 20)


def _is_number(value: Any) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)
