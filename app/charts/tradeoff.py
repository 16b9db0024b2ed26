"""The trade-off plane: personalized models on their own client's data and on everyone's.

Further right a model fits its client better, further up it generalizes better. A method is a path over its λ, K, ...;
no setting beats those on the front in both.
"""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.cost import named_methods
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme
from app.charts.plot.point_labels import Point, name_points
from app.data.comparison import pareto_front, per_method
from app.wording import names, percent_pm

MIN_SIZE, MAX_SIZE = 9, 24


def data(runs: pd.DataFrame, cost: str, parameter: str | None = None) -> pd.DataFrame:
    """[method, algorithm, split, seed, mean, everywhere, options, <cost>] -> a row per method, ordered along its path.

    ``own`` and ``everywhere`` are its two accuracies, ``value`` is its ``parameter``; ``front``: no other method has
    both at least as high.
    """
    rows = per_method(runs, ("mean", "everywhere", cost)).rename(
        columns={"mean": "own", "mean_pm": "own_pm", cost: "cost"}
    )
    given = runs.drop_duplicates("method").set_index("method")["options"]
    rows["value"] = pd.to_numeric([given[m].get(parameter) for m in rows["method"]], errors="coerce")
    rows["front"] = pareto_front(-rows["own"], rows["everywhere"])
    rows = rows.sort_values(["algorithm", "value"], kind="stable")
    columns = [
        "method",
        "algorithm",
        "value",
        "own",
        "own_pm",
        "everywhere",
        "everywhere_pm",
        "cost",
        "seeds",
        "front",
        "samples",
    ]
    return rows[columns].reset_index(drop=True)


def figure(df: pd.DataFrame, cost_title: str) -> go.Figure:
    """A marker per setting, sized by cost, joined into a path per method; the steps are the Pareto front."""
    fig, look, size = go.Figure(), looks(df), _sizes(df["cost"])
    front = df[df["front"]].sort_values("own")
    fig.add_scatter(
        x=100 * front["own"],
        y=100 * front["everywhere"],
        mode="lines",
        hoverinfo="skip",
        line={"shape": "vh", "color": theme().muted, "width": 1, "dash": "dot"},
    )
    for _, own in df.groupby("algorithm", sort=False):
        fig.add_scatter(
            x=100 * own["own"],
            y=100 * own["everywhere"],
            mode="lines+markers",
            cliponaxis=False,
            text=own["method"],
            line={"color": look[own["method"].iloc[0]].color, "width": 1.4},
            customdata=[[row.cost, _both(row)] for row in own.itertuples()],
            marker={
                "size": size[own.index],
                "symbol": look[own["method"].iloc[0]].symbol,
                "opacity": 0.9,
                "color": [look[m].color for m in own["method"]],
                "line": {"width": 1, "color": theme().paper},
            },
            hovertemplate=f"%{{text}}<br>%{{customdata[1]}}<br>%{{customdata[0]:,.4g}} {cost_title}<extra></extra>",
        )
    base_layout(fig, height=370)
    shown = named_methods(df, "front", "own")
    points = [(shown.get(r.method, ""), 100 * r.own, 100 * r.everywhere, look[r.method].color) for r in df.itertuples()]
    name_points(fig, [Point(*point) for point in points])
    fig.update_xaxes(title_text="accuracy on the client's own test data, %  (personalization)")
    fig.update_yaxes(title_text="accuracy on everyone's, %  (generalization)")
    return fig.update_layout(showlegend=False)


def _both(row: Any) -> str:
    own = percent_pm(row.own, row.own_pm, samples=row.samples)
    return f"own data {own}, everyone's {percent_pm(row.everywhere, row.everywhere_pm)}"


def finding(df: pd.DataFrame) -> str:
    front = df.loc[df["front"], "method"]
    return f"On the Pareto front of personalization and generalization: {names(front, 8)}."


def _sizes(cost: pd.Series) -> np.ndarray:
    """Diameters; areas grow with the cost, and an unknown one is as small as none."""
    known = cost.fillna(0.0)
    share = np.sqrt(known.to_numpy(float) / (known.max() or 1.0))
    return MIN_SIZE + (MAX_SIZE - MIN_SIZE) * share
