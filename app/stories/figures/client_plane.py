"""Each client's true model and trained model, in the plane in which the true models differ most."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import live_traces, palette
from app.charts.plot.segments import joined
from app.components.moving_figure import Moves
from app.stories.figures.square_plane import square_plane
from app.stories.lambda_curves import Example

HEIGHT = 330
MIN_EXTENT = 1.45  # room for where training starts and for the noise of models that learn alone


def data(example: Example, R: float, models: np.ndarray) -> pd.DataFrame:
    """[client, truth_x, truth_y, model_x, model_y, error]: places in the plane, errors in all dimensions."""
    truth = example.truth(R)
    where, model = example.in_plane(R, truth), example.in_plane(R, models)
    return pd.DataFrame(
        {
            "client": range(len(truth)),
            "truth_x": where[:, 0],
            "truth_y": where[:, 1],
            "model_x": model[:, 0],
            "model_y": model[:, 1],
            "error": ((models - truth) ** 2).sum(1),
        }
    )


def figure(df: pd.DataFrame) -> go.Figure:
    """Rings are true models, dots trained models, lines join them, the cross is the shared model; see ``moving``."""
    fig = go.Figure()
    shade = palette.theme()
    fig.add_scatter(
        x=[], y=[], mode="lines", name="pairs", line={"color": shade.muted, "width": 1}, opacity=0.6, hoverinfo="skip"
    )
    fig.add_scatter(
        x=df["truth_x"],
        y=df["truth_y"],
        mode="markers",
        customdata=df["client"],
        name="truth",
        marker={"symbol": "circle-open", "size": 13, "color": shade.ink, "line": {"width": 1.5}},
        hovertemplate="true model of client %{customdata}<extra></extra>",
    )
    fig.add_scatter(
        x=[],
        y=[],
        mode="markers",
        name="model",
        marker={"size": 9, "color": live_traces.color()},
        hovertemplate="model of client %{customdata[0]}: error %{customdata[1]:.2f}<extra></extra>",
    )
    fig.add_scatter(
        x=[],
        y=[],
        mode="markers",
        name="common model",
        hovertemplate="shared model<extra></extra>",
        marker={"symbol": "cross-thin", "size": 17, "line": {"width": 2.5, "color": shade.ink}},
    )
    palette.base_layout(fig, height=HEIGHT)
    extent = max(MIN_EXTENT, 1.35 * df[["truth_x", "truth_y"]].abs().to_numpy().max())
    return square_plane(fig, extent)


def moving(df: pd.DataFrame, shared: np.ndarray | None) -> Moves:
    """The models as they are now; ``shared`` [2] is the shared model in the plane."""
    common = [] if shared is None else shared.tolist()
    hover = df[["client", "error"]].to_numpy().tolist()
    return {
        "pairs": {axis: joined(df[f"truth_{axis}"], df[f"model_{axis}"]) for axis in "xy"},
        "model": {"x": df["model_x"].tolist(), "y": df["model_y"].tolist(), "customdata": hover},
        "common model": {"x": common[:1], "y": common[1:]},
    }
