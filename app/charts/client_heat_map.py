"""Accuracy of every client by round: a row per client, sorted by final accuracy, highest on top.

Plotly cannot select cells of a heat map, so invisible markers on top of it receive hover and clicks.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.palette import base_layout, theme
from app.data.averages import benign
from app.data.thinning import evenly
from app.wording import clients as in_words
from app.wording import percent

MAX_CLIENTS, MAX_ROUNDS, MAX_NAMED, MAX_MARKS = 200, 300, 40, 4000
LABELED = 3  # rows with the lowest final accuracy, labeled with it
ROOM = 0.02  # of the width, on both sides of marks beside the map
BEHIND = 0.05  # a client this far below the mean over clients is left behind


def data(
    rounds: np.ndarray, accuracy: np.ndarray, keep: int | None = None, samples: Sequence[float] = ()
) -> pd.DataFrame:
    """Rounds [R], accuracy [R, N], test samples [N] -> [row, client, round, accuracy, samples].

    Row 0 has the lowest final accuracy. Clients without test samples are omitted. More than 200 clients or 300 rounds
    are thinned evenly, with the first and the last; ``keep`` is a client that is always included.
    """
    tested = np.flatnonzero(np.isfinite(accuracy).any(axis=0))
    final = np.nan_to_num(accuracy[-1, tested], nan=-1.0)
    ranked = tested[np.argsort(final, kind="stable")]
    shown = ranked[evenly(len(ranked), MAX_CLIENTS)]
    if keep in ranked and keep not in shown:
        shown = ranked[np.isin(ranked, [*shown, keep])]
    at = evenly(len(rounds), MAX_ROUNDS)
    of = np.asarray(samples, float) if len(samples) else np.full(accuracy.shape[1], np.nan)
    return pd.DataFrame(
        {
            "row": np.repeat(np.arange(len(shown)), len(at)),
            "client": np.repeat(shown, len(at)),
            "round": np.tile(rounds[at], len(shown)),
            "accuracy": accuracy[np.ix_(at, shown)].T.ravel(),
            "samples": np.repeat(of[shown], len(at)),
        }
    )


def finding(accuracy: np.ndarray, samples: Sequence[float] = (), malicious: Sequence[int] = ()) -> str:
    """[N] of one round, and test samples [N] -> ``Client 17 falls behind: 41 % against a mean of 91.1 % ...``

    Malicious clients are left out.
    """
    accuracy = benign(accuracy, malicious)
    known = np.flatnonzero(np.isfinite(accuracy))
    if not len(known):
        return "No client has a finite accuracy in this round."
    values = accuracy[known].astype(float)
    mean, worst, clients = values.mean(), int(values.argmin()), in_words(len(known), bool(len(malicious)))
    behind = int((mean - values > BEHIND).sum())
    of_worst = samples[known[worst]] if len(samples) else None
    of_all = float(np.asarray(samples)[known].sum()) if len(samples) else None
    against = f"{percent(values[worst], samples=of_worst)} against a mean of {percent(mean, samples=of_all)}"
    if behind > 1:
        far = f"more than {100 * BEHIND:g} points below the mean"
        return f"{behind} of {clients} fall behind, {far}; lowest is client {known[worst]}: {against}."
    if behind:
        return f"Client {known[worst]} falls behind: {against} over {clients}."
    return f"No client falls far behind; the lowest is client {known[worst]}: {against} over {clients}."


def figure(df: pd.DataFrame, at: int, client: int | None = None, malicious: Sequence[int] = ()) -> go.Figure:
    """The heat map, with a line at round ``at``, a frame around ``client``, and the final accuracy of the lowest rows.

    Malicious clients have a hollow mark at the right end of their rows. Colors range over the values except the lowest
    5 %, which are mostly from the first rounds.
    """
    grid = df.pivot(index="row", columns="round", values="accuracy")
    rows = df.drop_duplicates("row").sort_values("row")
    client_of, samples = rows["client"].to_numpy(), rows["samples"].to_numpy()
    rounds = grid.columns.to_numpy()
    shade, percents = theme(), 100 * grid.to_numpy(np.float32)
    low, high = color_range(percents)
    least = f"≤ {low:g}" if (percents < low).any() else f"{low:g}"
    fig = go.Figure(
        go.Heatmap(
            z=percents,
            x=rounds,
            y=grid.index,
            colorscale="Cividis",
            zmin=low,
            zmax=high,
            hoverinfo="skip",
            ygap=1 if len(grid) <= MAX_NAMED else 0,
            colorbar={
                "title": {"text": "%", "side": "top"},
                "thickness": 10,
                "outlinewidth": 0,
                "tickvals": [low, (low + high) / 2, high],
                "ticktext": [least, f"{(low + high) / 2:g}", f"{high:g}"],
            },
        )
    )
    _marks(fig, percents, rounds, client_of, samples)
    ends = hollow_marks(fig, client_of, malicious, ends_of(rounds))
    base_layout(fig, height=int(np.clip(120 + 14 * len(grid), 320, 640)))
    _mark_round(fig, at)
    named = row_names(client_of, percents[:, -1] / 100, samples)
    if client is not None and client in client_of:
        row = int(np.flatnonzero(client_of == client)[0])
        fig.add_hrect(row - 0.5, row + 0.5, line={"color": shade.ink, "width": 2}, fillcolor="rgba(0,0,0,0)")
        fig.add_annotation(
            xref="paper",
            x=0,
            y=row,
            text=_bold(named.pop(row, str(client))),
            showarrow=False,
            xanchor="right",
            xshift=-5,
            font={"color": shade.ink},
            bgcolor=shade.paper,
        )
    fig.update_yaxes(
        title_text="client, by final accuracy",
        tickvals=list(named),
        showgrid=False,
        ticktext=[_bold(name) if row < LABELED else name for row, name in named.items()],
        range=[-0.5, len(grid) - 0.5],
    )
    fig.update_xaxes(title_text="round", showgrid=False, range=ends, dtick=whole_rounds(rounds))
    return fig.update_layout(showlegend=False, dragmode="zoom", hoverdistance=-1, plot_bgcolor=shade.second)


def color_range(percents: np.ndarray) -> tuple[float, float]:
    """Ends of the scale in percent, multiples of 5."""
    known = percents[np.isfinite(percents)]
    if not len(known):
        return 0.0, 100.0
    low, high = 5 * np.floor(np.quantile(known, 0.05) / 5), 5 * np.ceil(known.max() / 5)
    return float(low), float(max(high, low + 5))


def row_names(client_of: np.ndarray, final: np.ndarray, samples: np.ndarray) -> dict[int, str]:
    """Row -> its client; the lowest rows also have their final accuracy [rows]. At most 40, evenly spread."""
    step = -(-len(client_of) // MAX_NAMED)
    lowest = [row for row in range(min(LABELED, len(client_of))) if np.isfinite(final[row])]
    first = len(lowest) + step - 1 if step > 1 else len(lowest)
    named = {row: f"{client_of[row]}: {percent(final[row], samples=samples[row])}" for row in lowest}
    return named | {row: str(client_of[row]) for row in range(first, len(client_of), step)}


def _bold(name: str) -> str:
    return f"<b>{name}</b>"


def _marks(
    fig: go.Figure, percents: np.ndarray, rounds: np.ndarray, client_of: np.ndarray, samples: np.ndarray
) -> None:
    columns = evenly(len(rounds), max(2, MAX_MARKS // max(1, len(client_of))))
    row, column = np.meshgrid(np.arange(len(client_of)), columns, indexing="ij")
    row, column = row.ravel(), column.ravel()
    unseen = {"marker": {"opacity": 0}}
    fig.add_scatter(
        x=rounds[column],
        y=row,
        mode="markers",
        marker={"opacity": 0, "size": 8},
        selected=unseen,
        unselected=unseen,
        customdata=client_of[row],
        text=[percent(percents[r, c] / 100, samples=samples[r]) for r, c in zip(row, column, strict=True)],
        hovertemplate="client %{customdata}, round %{x}<br>%{text}<extra></extra>",
    )


def hollow_marks(fig: go.Figure, client_of: np.ndarray, malicious: Sequence[int], ends: Sequence[float]) -> list[float]:
    """A hollow circle beyond the right end of the rows of malicious clients. Returns the ends of the axis with them."""
    rows, step = np.flatnonzero(np.isin(client_of, malicious)), ROOM * (ends[1] - ends[0])
    if not len(rows):
        return list(ends)
    fig.add_scatter(
        x=np.full(len(rows), ends[1] + step),
        y=rows,
        mode="markers",
        marker={"symbol": "circle-open", "size": 9, "color": theme().ink, "line": {"width": 1.6}},
        hovertext=[f"client {client_of[row]}: malicious" for row in rows],
        hoverinfo="text",
    )
    return [ends[0], ends[1] + 2 * step]


def _mark_round(fig: go.Figure, at: int) -> None:
    shade = theme()
    fig.add_vline(at, line={"color": shade.paper, "width": 4})
    fig.add_vline(at, line={"color": shade.ink, "width": 1.5, "dash": "dash"})
    fig.add_annotation(
        x=at, yref="paper", y=1, text=f"round {at}", showarrow=False, yanchor="bottom", font={"color": shade.ink}
    )
    fig.update_layout(margin_t=28)


def whole_rounds(rounds: np.ndarray) -> int | None:
    """The step between the ticks of few rounds, for which Plotly would choose half a round. None: it chooses."""
    return 1 if rounds[-1] - rounds[0] < 5 else None


def ends_of(rounds: np.ndarray) -> list[float]:
    """Half a cell beyond the first and the last round."""
    first, last = (rounds[1] - rounds[0], rounds[-1] - rounds[-2]) if len(rounds) > 1 else (1, 1)
    return [float(rounds[0] - first / 2), float(rounds[-1] + last / 2)]
