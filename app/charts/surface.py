"""Loss around models along the same two random directions: side by side on one scale, as contours or 3D surfaces."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.charts.plot.palette import base_layout, is_presenting, theme, translucent
from app.wording import names, number

LEVELS = 16
SCALE_WIDTH = 70  # pixels, left free also without the scale: all plots have one size
ON_COLOR = {"color": "#FFFFFF", "shadow": "auto", "size": 14}  # readable on every color of the scale
MIN_LOSS = 1e-6  # a logarithm needs more than 0
_TICKS = np.array([m * 10.0**e for e in range(-6, 6) for m in (1, 2, 5)])


def data(axis: np.ndarray, surfaces: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """``axis`` [A] and surfaces [A, A] by name -> [surface, a, b, loss], a row per point; NaN where not finite."""
    a, b = np.meshgrid(axis, axis)
    parts = [
        pd.DataFrame({"surface": name, "a": a.ravel(), "b": b.ravel(), "loss": known(values).ravel()})
        for name, values in surfaces.items()
    ]
    return pd.concat(parts, ignore_index=True)


def rises(df: pd.DataFrame) -> pd.DataFrame:
    """[surface, center, rise]: the loss at the center, and its mean rise halfway to the edge.

    The mean is over finite points whose distance is within half a grid step of that.
    """
    rows = []
    for name, own in df.groupby("surface", sort=False):
        axis = np.sort(own["a"].unique())
        far, step = axis[-1] / 2, axis[1] - axis[0]
        ring = own[(np.hypot(own["a"], own["b"]) - far).abs() <= step / 2 + 1e-9]
        center = own.loc[np.hypot(own["a"], own["b"]).idxmin(), "loss"]
        rows.append((name, center, ring["loss"].mean() - center, far))
    return pd.DataFrame(rows, columns=["surface", "center", "rise", "distance"])


def finding(df: pd.DataFrame) -> str:
    """``At a distance of 0.5 the loss changes by 0.21 (global model on 50 samples ...: from 0.51) and ...``"""
    found = rises(df)
    changes = names((f"by {number(r.rise)} ({r.surface}: from {number(r.center)})" for r in found.itertuples()), 12)
    return f"At a distance of {found['distance'].iloc[0]:g} the loss changes {changes}, on average."


def figure(df: pd.DataFrame, every: np.ndarray, with_scale: bool = True, height: int = 430) -> go.Figure:
    """Contours of one surface; the center is the model itself; gray where the loss is not finite.

    ``every`` are the losses of all surfaces that share its scale.
    """
    x, y, z = _grid(df)
    fig = base_layout(go.Figure([contours(x, y, z, every), _center(z)]), height=height)
    fig.update_layout(coloraxis={**color_axis(every), "showscale": with_scale}, showlegend=False)
    fig.update_layout(margin_r=SCALE_WIDTH, plot_bgcolor=translucent(theme().muted, 0.35))
    fig.update_xaxes(title_text="along u", constrain="domain")
    fig.update_yaxes(title_text="along v", scaleanchor="x", constrain="domain", showgrid=False)
    return fig


def in_a_row(df: pd.DataFrame) -> go.Figure:
    """All surfaces on one scale in one plot without labels, with a gap between them: for a thumbnail."""
    grids = [_grid(own) for _, own in df.groupby("surface", sort=False)]
    x, y, _ = grids[0]
    step, gap = len(x), np.full((len(y), 1), np.nan)
    row = np.hstack([part for *_, loss in grids for part in (loss, gap)])[:, :-1]
    every, places = df["loss"].to_numpy(), np.arange(row.shape[1])
    centers = [(step + 1) * i + step // 2 for i in range(len(grids))]
    marks = go.Scatter(x=centers, y=[0] * len(grids), mode="markers", marker={"color": "#FFFFFF"})
    fig = go.Figure([contours(places, y, row, every), marks])
    return fig.update_layout(coloraxis=color_axis(every), showlegend=False)


def hills(df: pd.DataFrame) -> go.Figure:
    """All surfaces in one figure, side by side, with one scale for color and height."""
    surfaces, every = list(df["surface"].unique()), df["loss"].to_numpy()
    titles = [name.replace(" on ", "<br>on ", 1) for name in surfaces]
    fig = make_subplots(1, len(surfaces), subplot_titles=titles, specs=[[{"type": "scene"}] * len(surfaces)])
    for column, name in enumerate(surfaces, 1):
        fig.add_trace(hill(*_grid(df[df["surface"] == name])), row=1, col=column)
    base_layout(fig, height=520)
    fig.update_annotations(font={"size": 14 * (1.3 if is_presenting() else 1.0), "color": theme().ink})
    fig.update_layout(coloraxis=color_axis(every), margin_t=52, showlegend=False)
    return fig.update_scenes(**scene(every))


def known(loss: np.ndarray) -> np.ndarray:
    """Infinite losses become NaN."""
    return np.where(np.isfinite(loss), loss, np.nan)


def contours(x: np.ndarray, y: np.ndarray, loss: np.ndarray, every: np.ndarray) -> go.Contour:
    """Colored by the logarithm of the loss; lines at the same levels as in all panels, whose losses are ``every``."""
    low, high, _ = _range(every)
    return go.Contour(
        x=x,
        y=y,
        z=_log(loss),
        coloraxis="coloraxis",
        connectgaps=False,
        customdata=loss.astype(np.float32),
        autocontour=False,
        contours={"start": low, "end": high, "size": (high - low) / LEVELS},
        line={"width": 0.6, "color": translucent("#FFFFFF", 0.55)},
        hovertemplate="(%{x:.2f}, %{y:.2f}): loss %{customdata:.3g}<extra></extra>",
    )


def hill(x: np.ndarray, y: np.ndarray, loss: np.ndarray) -> go.Surface:
    return go.Surface(
        x=x,
        y=y,
        z=_log(loss),
        coloraxis="coloraxis",
        customdata=loss.astype(np.float32),
        connectgaps=False,
        hovertemplate="(%{x:.2f}, %{y:.2f}): loss %{customdata:.3g}<extra></extra>",
        contours_z={"show": True, "color": translucent("#FFFFFF", 0.4), "width": 1},
    )


def color_axis(loss: np.ndarray) -> dict[str, object]:
    """One scale for all surfaces of a figure, its ticks written as losses."""
    low, high, ticks = _range(loss)
    return {
        "colorscale": "Cividis",
        "cmin": low,
        "cmax": high,
        "colorbar": {
            "title": {"text": "loss", "font_size": 12},
            "thickness": 10,
            "outlinewidth": 0,
            "tickvals": np.log10(ticks),
            "ticktext": [f"{t:g}" for t in ticks],
            "tickfont_color": theme().muted,
        },
    }


def scene(loss: np.ndarray) -> dict[str, object]:
    """The axes of a 3D surface, the same for all."""
    low, high, ticks = _range(loss)
    shade = theme()
    axis = {"color": shade.muted, "gridcolor": shade.line, "backgroundcolor": "rgba(0,0,0,0)", "showbackground": False}
    return {
        "xaxis": {**axis, "title": "u"},
        "yaxis": {**axis, "title": "v"},
        "zaxis": {
            **axis,
            "title": "loss",
            "range": [low, high],
            "tickvals": np.log10(ticks).tolist(),
            "ticktext": [f"{t:g}" for t in ticks],
        },
        "camera_eye": {"x": 1.5, "y": 1.5, "z": 0.9},
        "aspectratio": {"x": 1, "y": 1, "z": 0.7},
    }


def _grid(df: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    grid = df.pivot(index="b", columns="a", values="loss")
    return grid.columns.to_numpy(np.float32), grid.index.to_numpy(np.float32), grid.to_numpy(float)


def _center(loss: np.ndarray) -> go.Scatter:
    middle = float(loss[len(loss) // 2, loss.shape[1] // 2])
    return go.Scatter(
        x=[0],
        y=[0],
        mode="markers+text",
        text=[f"{middle:.3g}"],
        textposition="top center",
        textfont=ON_COLOR,
        marker={"symbol": "cross", "size": 12, "color": "#FFFFFF", "line": {"color": "#1B2428", "width": 1.5}},
        hovertemplate=f"the model: loss {middle:.4g}<extra></extra>",
    )


def _log(loss: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(known(loss), MIN_LOSS)).astype(np.float32)


def _range(loss: np.ndarray) -> tuple[float, float, Sequence[float]]:
    """Ends of the scale as logarithms, and about six round losses between them."""
    logs = _log(loss)
    logs = logs[np.isfinite(logs)]
    low, high = (float(logs.min()), float(logs.max())) if len(logs) else (-1.0, 1.0)
    high = max(high, low + 0.01)
    ticks = _TICKS[(np.log10(_TICKS) >= low) & (np.log10(_TICKS) <= high)]
    if len(ticks) < 2:
        return low, high, [float(f"{10**v:.3g}") for v in (low, (low + high) / 2, high)]
    return low, high, ticks[:: -(-len(ticks) // 7)].tolist()
