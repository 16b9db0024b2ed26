"""Training curves: accuracy, loss, spread and megabytes of a few runs, over rounds, megabytes or seconds.

The mean over clients is a solid line, the lowest 5 % a dashed one; color shows the method, shades its settings. Seeds
share a color.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.method_styles import looks_of_runs
from app.data.costs import AXIS_TITLES
from app.data.method_labels import labels
from storage import RunRecord

COLUMNS = ("mean", "lowest5", "std", "loss", "train_loss", "megabytes", "seconds")
PANELS = {
    "accuracy": ("Accuracy, %: mean, and lowest 5 % dashed", {"mean": "solid", "lowest5": "dash"}),
    "loss": ("Loss: {data}, and training dotted", {"loss": "solid", "train_loss": "dot"}),
    "spread": ("Spread over clients (std), points", {"std": "solid"}),
    "cost": ("Megabytes sent, both ways", {"megabytes": "solid"}),
}
UPLOADS: dict[str, tuple[str, str, dict[str, str]]] = {  # panel -> the section with which runs record it, title, lines
    "arrived": ("system", "Uploads that arrived", {"arrived": "solid"}),
    "norms": ("attack", "Update norm: benign, and malicious dotted", {"benign_norm": "solid", "malicious_norm": "dot"}),
    "compression": ("compression", "Compression error, relative", {"compression_error": "solid"}),
    "epsilon": ("privacy", "ε, largest of all clients", {"epsilon": "solid"}),
}
_TITLES = {
    "mean": "mean",
    "lowest5": "lowest 5 %",
    "loss": "{data} loss",
    "train_loss": "training loss",
    "std": "std",
    "megabytes": "MB",
    "arrived": "arrived",
    "benign_norm": "benign",
    "malicious_norm": "malicious",
    "compression_error": "error",
    "epsilon": "ε",
}
_UNITS = {
    "mean": ":.2f} %",
    "lowest5": ":.2f} %",
    "std": ":.2f}",
    "loss": ":.4f}",
    "train_loss": ":.4f}",
    "megabytes": ":.3~f} MB",
    "arrived": ":.0f}",
    **dict.fromkeys(("benign_norm", "malicious_norm", "compression_error", "epsilon"), ":.4~g}"),
}


def data_names(runs: Sequence[RunRecord]) -> str:
    """``test``, ``validation`` or ``test or validation``: the data on which these runs are evaluated."""
    found = sorted({"test" if run.is_tested else "validation" for run in runs})
    return " or ".join(found) or "test"


def uploads_of(runs: Sequence[RunRecord]) -> list[str]:
    """The panels of UPLOADS that some of these runs have."""
    return [panel for panel, (section, _, _) in UPLOADS.items() if any(run.config.get(section) for run in runs)]


def columns_of(run: RunRecord) -> tuple[str, ...]:
    """COLUMNS, and those of the panels of UPLOADS that this run has."""
    return (*COLUMNS, *(name for panel in uploads_of([run]) for name in UPLOADS[panel][2]))


def data(runs: Sequence[RunRecord], points: Mapping[int, Mapping[str, Sequence[float | None]]]) -> pd.DataFrame:
    """Runs and their points -> [run, label, algorithm, seed, round, mean, ...]; megabytes and seconds add up."""
    parts = [_points(run, points[run.id]) for run in runs if points.get(run.id, {}).get("round")]
    own = dict.fromkeys(name for run in runs for name in columns_of(run))
    columns = ["run", "label", "algorithm", "seed", "round", *(own or COLUMNS)]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def figure(
    df: pd.DataFrame, runs: Sequence[RunRecord], panel: str = "accuracy", x: str = "round", height: int = 400
) -> go.Figure:
    """One panel. The ``meta`` of every line names what it draws, so that the browser can add points to it."""
    title, lines = PANELS[panel] if panel in PANELS else UPLOADS[panel][1:]
    title = title.format(data=data_names(runs))
    fig, look, label = go.Figure(), looks_of_runs(runs), labels(runs)
    for run in (run for run in runs if panel in PANELS or panel in uploads_of([run])):
        mine = df[df["run"] == run.id]
        for name, dash in lines.items():
            fig.add_scatter(**_line(run, label[run.id], look[run.id].color, name, dash, mine, x))
    palette.base_layout(fig, height=height)
    fig.update_layout(
        title_text=title,
        showlegend=False,
        margin={"t": 44, "r": _label_room(label.values(), panel)},
        uirevision=f"{panel} {x} {[run.id for run in runs]}",
    )
    fig.update_xaxes(title_text=AXIS_TITLES[x], rangemode="tozero")
    fig.update_yaxes(rangemode="normal" if panel == "accuracy" else "tozero")
    if df.empty:  # until the browser adds points: Plotly's axes would begin at -1
        fig.update_xaxes(range=[0, 1], autorange=True)
        fig.update_yaxes(range=[0, 100 if panel == "accuracy" else 1], autorange=True)
    if x == "round" and runs:
        fig.update_xaxes(range=[0, max(run.rounds for run in runs)], autorange=False)
    return fig


def _points(run: RunRecord, points: Mapping[str, Sequence[float | None]]) -> pd.DataFrame:
    table = pd.DataFrame({name: np.array(points[name], dtype=float) for name in columns_of(run)})
    table[["megabytes", "seconds"]] = table[["megabytes", "seconds"]].cumsum()
    head = {"run": run.id, "label": run.label, "algorithm": run.algorithm, "seed": run.seed}
    return table.assign(**head, round=list(points["round"]))


def _line(run: RunRecord, label: str, color: str, name: str, dash: str, mine: pd.DataFrame, x: str) -> dict[str, Any]:
    """``meta``: the run, the column, and the label at the line's end, which the main lines have."""
    main = dash == "solid"
    title = f"{label}, {run.seeds_in_words}: {_TITLES[name].format(data=data_names([run]))}"
    return {
        "x": mine[x].to_numpy(np.float32),
        "y": mine[name].to_numpy(np.float32),
        "mode": "lines",
        "name": title,
        "line": {"color": color, "dash": dash, "width": 2 if main else 1.2},
        "connectgaps": True,
        "meta": {"run": run.id, "x": x, "y": name, "label": label if main else None},
        "hovertemplate": f"{title}<br>%{{y{_UNITS[name]}<br>{x} %{{x:.4~g}}<extra></extra>",
    }


def _label_room(labels: Iterable[str], panel: str) -> int:
    """Pixels right of the main panel for the names at the ends of its lines."""
    if panel != "accuracy":
        return 16
    return min(246, 40 + 7 * max(map(len, labels), default=0))
