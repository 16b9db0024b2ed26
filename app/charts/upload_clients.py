"""One recorded quantity of every client and round, such as the norm of its update: a row per client.

Malicious clients have a hollow mark at the right end of their rows.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.client_heat_map import MAX_CLIENTS, MAX_NAMED, MAX_ROUNDS, ends_of, hollow_marks, whole_rounds
from app.charts.plot.palette import base_layout, theme
from app.data.averages import benign, mean_of_known
from app.data.thinning import evenly
from app.wording import number, plural


def data(rounds: np.ndarray, values: np.ndarray, is_total: bool = False) -> pd.DataFrame:
    """Rounds [R], values [R, N] -> [row, client, round, value]. NaN: the client did not take part.

    Row 0 has the lowest mean over rounds, or the lowest last value if ``is_total``, for totals such as ε. Clients
    without any value are omitted. More than 200 clients or 300 rounds are thinned evenly.
    """
    known = np.flatnonzero(np.isfinite(values).any(axis=0))
    ranked = known[np.argsort(_of_clients(values[:, known], is_total), kind="stable")]
    shown, at = ranked[evenly(len(ranked), MAX_CLIENTS)], evenly(len(rounds), MAX_ROUNDS)
    return pd.DataFrame(
        {
            "row": np.repeat(np.arange(len(shown)), len(at)),
            "client": np.repeat(shown, len(at)),
            "round": np.tile(rounds[at], len(shown)),
            "value": values[np.ix_(at, shown)].T.ravel().astype(float),
        }
    )


def finding(values: np.ndarray, title: str, malicious: Sequence[int] = (), is_total: bool = False) -> str:
    """``Update norm, mean over rounds: from 0.21 (client 3) to 1.9 (client 17); malicious 4.1, benign 0.8.``"""
    of_clients = _of_clients(values, is_total)
    own = benign(of_clients, malicious)
    subject = f"{title} after the last round" if is_total else f"{title}, mean over rounds"
    ranked = np.flatnonzero(np.isfinite(own))
    if not len(ranked):
        return f"{title}: no client has a value."
    low, high = ranked[np.argmin(own[ranked])], ranked[np.argmax(own[ranked])]
    if own[low] == own[high]:
        ends = f"{number(own[low])} for all of {plural(len(ranked), 'client')}"
    else:
        ends = f"from {number(own[low])} (client {low}) to {number(own[high])} (client {high})"
    if not len(malicious):
        return f"{subject}: {ends}."
    others = of_clients[list(malicious)]
    bad = f"malicious {number(float(np.mean(others[np.isfinite(others)])))}" if np.isfinite(others).any() else ""
    both = "; ".join(filter(None, [f"benign clients {ends}", bad and f"mean of {bad}"]))
    return f"{subject}: {both}."


def _of_clients(values: np.ndarray, is_total: bool) -> np.ndarray:
    """[R, N] -> [N]: the mean of each client's known values, or its last one; NaN without any."""
    if not is_total:
        return mean_of_known(values.T)
    known = np.isfinite(values)
    last = len(values) - 1 - known[::-1].argmax(axis=0)
    return np.where(known.any(axis=0), values[last, np.arange(values.shape[1])], np.nan)


def figure(df: pd.DataFrame, at: int, title: str, malicious: Sequence[int] = (), is_total: bool = False) -> go.Figure:
    """The heat map with a line at round ``at``; cells without a value show the background."""
    grid = df.pivot(index="row", columns="round", values="value")
    client_of = df.drop_duplicates("row").sort_values("row")["client"].to_numpy()
    rounds, shade = grid.columns.to_numpy(), theme()
    fig = go.Figure(
        go.Heatmap(
            z=grid.to_numpy(np.float32),
            x=rounds,
            y=grid.index,
            colorscale="Cividis",
            ygap=1 if len(grid) <= MAX_NAMED else 0,
            customdata=np.repeat(client_of[:, None], len(rounds), axis=1),
            hovertemplate=f"client %{{customdata}}, round %{{x}}<br>{title}: %{{z:.4g}}<extra></extra>",
            hoverongaps=False,
            colorbar={"thickness": 10, "outlinewidth": 0, "nticks": 5},
        )
    )
    ends = hollow_marks(fig, client_of, malicious, ends_of(rounds))
    base_layout(fig, height=int(np.clip(120 + 14 * len(grid), 320, 640)))
    fig.add_vline(at, line={"color": shade.paper, "width": 4})
    fig.add_vline(at, line={"color": shade.ink, "width": 1.5, "dash": "dash"})
    step = -(-len(client_of) // MAX_NAMED)
    named = {row: str(client_of[row]) for row in range(0, len(client_of), step)}
    fig.update_yaxes(
        title_text="client, by its last value" if is_total else "client, by its mean",
        tickvals=list(named),
        ticktext=list(named.values()),
        showgrid=False,
        range=[-0.5, len(grid) - 0.5],
    )
    fig.update_xaxes(title_text="round", showgrid=False, range=ends, dtick=whole_rounds(rounds))
    return fig.update_layout(showlegend=False, plot_bgcolor=shade.second)
