"""Are sharp models less accurate? A point per client: its accuracy by the top Hessian eigenvalue of its model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from scipy.stats import spearmanr

from app.charts.plot.palette import base_layout, theme
from app.data.thinning import quantile_note, quantiles
from app.wording import clients, number, percent


def data(
    eigenvalue: np.ndarray,
    rise: np.ndarray,
    loss: np.ndarray,
    accuracy: np.ndarray,
    test_sizes: Sequence[float] = (),
    malicious: Sequence[int] = (),
) -> pd.DataFrame:
    """[N] each -> [client, eigenvalue, rise, loss, accuracy, test_size, is_malicious], the sharpest first.

    Clients without finite measures are omitted.
    """
    df = pd.DataFrame(
        {
            "client": np.arange(len(eigenvalue)),
            "eigenvalue": eigenvalue,
            "rise": rise,
            "loss": loss,
            "accuracy": accuracy,
            "test_size": np.asarray(test_sizes, float) if len(test_sizes) else np.nan,
            "is_malicious": np.isin(np.arange(len(eigenvalue)), malicious),
        }
    )
    whole = df[np.isfinite(df[["eigenvalue", "accuracy"]]).all(axis=1)]
    return whole.sort_values(["eigenvalue", "client"], ascending=[False, True]).reset_index(drop=True)


def finding(df: pd.DataFrame) -> str:
    """Name the client with the sharpest model, and the rank correlation with accuracy. Benign clients only."""
    own = df[~df["is_malicious"]]
    if own.empty:
        return "No client has a model with finite curvature."
    first, who = own.iloc[0], clients(len(own), len(own) < len(df))
    top, accuracy = number(first["eigenvalue"]), percent(first["accuracy"], samples=first["test_size"])
    sharpest = f"Sharpest: client {first['client']:.0f}, eigenvalue {top}, {accuracy}"
    if len(own) < 3 or own[["eigenvalue", "accuracy"]].nunique().min() < 2:
        return f"{sharpest} ({who})."
    rho = float(spearmanr(own["eigenvalue"], own["accuracy"]).statistic)
    return f"{sharpest}. Rank correlation with accuracy: {rho:+.2f} ({who}).".replace("-", "−")


def figure(df: pd.DataFrame, client: int | None = None) -> go.Figure:
    """The chosen client is ringed and named. Of more than 2,000 clients the points are quantiles."""
    fig, shade, everyone = go.Figure(), theme(), df
    is_log = bool(len(df)) and bool((df["eigenvalue"] > 0).all())
    df = df.iloc[quantiles(len(everyone))]
    fig.add_scatter(
        x=df["eigenvalue"].to_numpy(np.float32),
        y=100 * df["accuracy"].to_numpy(np.float32),
        mode="markers",
        marker={
            "size": 9,
            "color": shade.accent,
            "symbol": ["circle-open" if hollow else "circle" for hollow in df["is_malicious"]],
        },
        cliponaxis=False,
        customdata=np.stack([df["client"], df["loss"], df["rise"]], axis=1).astype(np.float32),
        text=[percent(row.accuracy, samples=row.test_size) for row in df.itertuples()],
        hovertemplate="client %{customdata[0]:.0f}: eigenvalue %{x:.3g}, %{text}<br>loss %{customdata[1]:.3g}, worst "
        "nearby +%{customdata[2]:.3g}<extra></extra>",
    )
    own = everyone[everyone["client"] == client]
    fig.add_scatter(
        x=own["eigenvalue"],
        y=100 * own["accuracy"],
        mode="markers+text",
        text=[f"client {client}"] * len(own),
        textposition="top center",
        hoverinfo="skip",
        cliponaxis=False,
        marker={"symbol": "circle-open", "size": 17, "color": shade.ink, "line": {"width": 2}},
    )
    base_layout(fig, height=400)
    fig.update_xaxes(type="log" if is_log else "linear", title_text="top eigenvalue of the Hessian; right = sharper")
    fig.update_yaxes(title_text="client accuracy, %" + quantile_note(len(everyone), "eigenvalue"))
    return fig.update_layout(showlegend=False)
