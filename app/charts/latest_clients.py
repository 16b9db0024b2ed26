"""The distribution of the latest accuracies over clients: one step curve (ECDF) per run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.method_styles import looks_of_runs
from app.data.method_labels import run_names
from storage import RunRecord


def data(runs: Sequence[RunRecord], clients: Mapping[int, Sequence[float] | None]) -> pd.DataFrame:
    """Ascending accuracies of each run -> [run, label, algorithm, seed, accuracy, share], both in percent."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        values = clients.get(run.id) or ()
        head = {"run": run.id, "label": run.label, "algorithm": run.algorithm, "seed": run.seed}
        rows += [head | {"accuracy": v, "share": 100 * (i + 1) / len(values)} for i, v in enumerate(values)]
    return pd.DataFrame(rows, columns=["run", "label", "algorithm", "seed", "accuracy", "share"])


def figure(df: pd.DataFrame, runs: Sequence[RunRecord], height: int = 400) -> go.Figure:
    fig, look, names = go.Figure(), looks_of_runs(runs), run_names(runs)
    for run in runs:
        mine, style = df[df["run"] == run.id], look[run.id]
        name = names[run.id]
        fig.add_scatter(
            **_steps(mine),
            mode="lines",
            line={"color": style.color, "dash": style.dash, "width": 1.8, "shape": "hv"},
            name=name,
            meta={"run": run.id, "y": "clients"},
            hovertemplate=f"{name}<br>%{{y:.0f}} % of clients at or below %{{x:.2f}} %<extra></extra>",
        )
    palette.base_layout(fig, height=height)
    fig.update_layout(
        title_text="Clients at or below an accuracy, %",
        showlegend=False,
        margin_t=44,
        uirevision=f"ecdf {[run.id for run in runs]}",
    )
    fig.update_xaxes(title_text="accuracy, % (latest round)", rangemode="normal")
    if df.empty:  # until the browser adds clients: Plotly's axis would begin at -1
        fig.update_xaxes(range=[0, 100], autorange=True)
    fig.update_yaxes(range=[0, 102])
    return fig


def _steps(mine: pd.DataFrame) -> dict[str, np.ndarray]:
    """The corners of the step curve, from 0 to 100 % of the clients."""
    x, y = mine["accuracy"].to_numpy(np.float32), mine["share"].to_numpy(np.float32)
    return {"x": np.concatenate([x[:1], x]), "y": np.concatenate([[0.0][: len(x)], y])}
