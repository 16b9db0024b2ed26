"""The same clients under two methods, A against B, each averaged over the seeds of its split."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme
from app.data.thinning import quantile_note, quantiles
from app.statistics.intervals import ROUNDING
from app.statistics.signed_rank import EXACT_UP_TO, effect, signed_rank_p
from app.wording import clients, percent, signed_points

MIN_DIFFERENCES = 6  # with fewer differences no p-value can be small
SIGNIFICANT = 0.05
FADED = 0.25  # the opacity of clients that are not chosen


@dataclass(frozen=True)
class Verdict:
    """Counts of clients, the median of their differences (fractions), and the p-value of Wilcoxon's signed ranks.

    ``samples`` is the fewest test samples behind a client's difference.
    """

    better: int
    worse: int
    equal: int
    median: float
    p: float
    tied: int  # differences whose size occurs more than once
    effect: float  # rank-biserial correlation, from -1 to 1
    samples: float = np.nan
    are_benign: bool = False  # malicious clients are left out
    draws: int = 1  # splits, or seeds, of the data: client 3 of one is not client 3 of another
    are_alike: bool = True  # each has as many clients
    unit: str = "seed"  # or "split": what the data were drawn by

    def heading(self, a: str, b: str) -> str:
        """``31 of 40 clients do better with CGPFL K=4 than with Ditto, 9 worse``, with a note if it may be chance."""
        if self.better + self.worse == 0:
            return f"{a} and {b} are equally accurate for each of {self._in_all}"
        does = "does" if self.better == 1 else "do"
        counts = f"{self.better} of {self._in_all} {does} better with {a} than with {b}, {self.worse or 'none'} worse"
        if not np.isfinite(self.p):
            return f"{counts}; too few differ to tell"
        return counts if self.p < SIGNIFICANT else f"{counts}, which may be chance"

    def sentence(self, a: str, b: str, seeds: int = 1) -> str:
        """``With Ditto, 11 clients do better than with pFedMe, 6 worse and 103 the same (...); median difference ...``.

        ``seeds``: how many are averaged for each client.
        """
        better = f"{clients(self.better) if self.better else 'no client'} {'do' if self.better > 1 else 'does'} better"
        rest = (
            f", {self.worse or 'none'} worse and {self.equal} the same"
            if self.equal
            else f" and {self.worse or 'none'} worse"
        )
        over = self._who + (f", each averaged over {seeds} seeds" if seeds > 1 else "")
        median = median_in_words(self.median, self.samples)
        return f"With {a}, {better} than with {b}{rest} ({over}); median difference {median} points."

    def test(self) -> str:
        """The p-value with its meaning, then the test in words."""
        if not np.isfinite(self.p):
            return f"No test: fewer than {MIN_DIFFERENCES} clients differ."
        n = self.better + self.worse
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"
        r = f"{self.effect:+.2f}".replace("-", "−")
        how = "exact" if n <= EXACT_UP_TO else "normal approximation"
        left = [f"{self.equal} equal excluded"] if self.equal else []
        ties = [f"{self.tied} tied share their ranks"] if self.tied else []
        notes = f" ({', '.join(left + ties)})" if left or ties else ""
        return (
            f"{p}: the chance of a difference at least this large if the methods were equal. Wilcoxon signed-rank "
            f"test, two-sided, {how}; n = {n}{notes}; effect r = {r}. Clients share training runs, so this holds for "
            "these runs, not for new ones."
        )

    @property
    def _num(self) -> int:
        return self.better + self.worse + self.equal

    @property
    def _who(self) -> str:
        """``40 clients``, or ``40 clients × 3 seeds``."""
        if self.draws == 1:
            return clients(self._num, self.are_benign)
        if not self.are_alike:
            return f"{clients(self._num, self.are_benign)} of {self.draws} {self.unit}s"
        return f"{clients(self._num // self.draws, self.are_benign)} × {self.draws} {self.unit}s"

    @property
    def _in_all(self) -> str:
        """``40 clients``, or ``120 clients (40 × 3 seeds)``."""
        everyone = clients(self._num, self.are_benign)
        if self.draws == 1 or not self.are_alike:
            return everyone
        return f"{everyone} ({self._num // self.draws} × {self.draws} {self.unit}s)"


def median_in_words(median: float, samples: float) -> str:
    """``+2.10``; no difference has no sign: ``0``."""
    text = signed_points(median, samples)
    return text if any(digit in text for digit in "123456789") else text.lstrip("+")


def data(clients: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """[method, split, seed, client, accuracy, test_size] -> [split, client, seeds, samples, a, b, difference = a - b].

    The greatest gain comes first. A client's accuracies are its means over the seeds of its split in which both methods
    have it, and ``samples`` its test samples in all of these. A client of another split is another client.
    """
    keys = ["split", "seed", "client"]
    first = clients.loc[clients["method"] == a, [*keys, "accuracy", "test_size"]]
    second = clients.loc[clients["method"] == b, [*keys, "accuracy"]]
    both = first.merge(second, on=keys, suffixes=("_a", "_b"))
    pairs = both.groupby(["split", "client"], as_index=False).agg(
        seeds=("seed", "nunique"), samples=("test_size", "sum"), a=("accuracy_a", "mean"), b=("accuracy_b", "mean")
    )
    pairs["difference"] = (pairs["a"] - pairs["b"]).astype(float).round(round(-np.log10(ROUNDING)))
    order = pairs.sort_values(["difference", "split", "client"], ascending=[False, True, True])
    return order.reset_index(drop=True)


def who(df: pd.DataFrame) -> list[str]:
    """``client 3``; with several splits ``client 3 of split 1``, since they have different clients."""
    clients = [f"client {client}" for client in df["client"]]
    several = df["split"].nunique() > 1
    return [f"{one} of split {s}" for one, s in zip(clients, df["split"], strict=True)] if several else clients


def verdict(df: pd.DataFrame, are_benign: bool = False, unit: str = "seed") -> Verdict:
    """Zero differences count as equal and are excluded from the test, as in Wilcoxon's."""
    difference = df["difference"].to_numpy(float)
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    sizes = np.abs(difference[difference != 0])
    _, counts = np.unique(sizes, return_counts=True)
    p = signed_rank_p(difference) if len(sizes) >= MIN_DIFFERENCES else float("nan")
    median = float(np.median(difference)) if len(df) else float("nan")
    samples = float(df["samples"].min()) if len(df) else float("nan")
    equal, tied = len(difference) - better - worse, int(counts[counts > 1].sum())
    draws = df.groupby("split").size()
    return Verdict(
        better,
        worse,
        equal,
        median,
        p,
        tied,
        effect(difference),
        samples,
        are_benign,
        max(1, len(draws)),
        draws.nunique() < 2,
        unit,
    )


def figure(df: pd.DataFrame, a: str, b: str, methods: pd.DataFrame, chosen: Sequence[int] = ()) -> go.Figure:
    """B across, A up: above the diagonal A is better. ``methods`` [method, algorithm] gives the colors.

    If clients are ``chosen``, the others fade. Of more than 2,000 clients the points are quantiles and the chosen ones.
    """
    look, fig, whole = looks(methods), go.Figure(), len(df)
    low, high = 100 * df[["a", "b"]].min().min(), 100 * df[["a", "b"]].max().max()
    is_drawn = df["client"].isin(chosen).to_numpy(copy=True)
    is_drawn[quantiles(whole)] = True
    df = df[is_drawn]
    pad = max(1.0, 0.05 * (high - low))
    ends = [low - pad, min(high + pad, 101)]
    fig.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": theme().muted, "width": 1, "dash": "dot"}, hoverinfo="skip"
    )
    marks = (
        (1, look[a].color, "triangle-up"),
        (-1, look[b].color, "triangle-down"),
        (0, theme().muted, "circle-open"),
    )
    for sign, color, symbol in marks:
        points = _stacked(df[np.sign(df["difference"]) == sign])
        is_lit = [not chosen or not set(chosen).isdisjoint(who) for who in points["clients"]]
        fig.add_scatter(
            x=100 * points["b"],
            y=100 * points["a"],
            mode="markers",
            customdata=[
                [100 * row.difference, row.client, ",".join(map(str, row.clients))] for row in points.itertuples()
            ],
            marker={"color": color, "symbol": symbol, "size": 6 + 2 * np.sqrt(points["count"])},
            cliponaxis=False,
            marker_opacity=np.where(is_lit, 1, FADED),
            marker_line={"width": 1.2, "color": [theme().ink if chosen and lit else color for lit in is_lit]},
            hovertext=[_hover(row, a, b) for row in points.itertuples()],
            hoverinfo="text",
        )
    base_layout(fig, height=350)
    fig.update_xaxes(
        title_text=f"{b}, client accuracy, %" + quantile_note(whole, "difference"), range=ends, constrain="domain"
    )
    fig.update_yaxes(title_text=f"{a}, %", range=ends, scaleanchor="x", constrain="domain")
    return fig.update_layout(showlegend=False)


def _hover(row: Any, a: str, b: str) -> str:
    of_a, of_b = (percent(value, samples=row.samples) for value in (row.a, row.b))
    return f"{row.who}<br>{a} {of_a}, {b} {of_b}: {signed_points(row.difference, row.samples)}"


def _stacked(df: pd.DataFrame) -> pd.DataFrame:
    """Clients at the same point become one larger marker: small test sets give few distinct accuracies."""
    points = (
        df.assign(who=who(df))
        .groupby(["a", "b", "difference"], as_index=False)
        .agg(
            client=("client", "first"),
            clients=("client", list),
            count=("client", "size"),
            samples=("samples", "min"),
            who=("who", list),
        )
    )
    points["who"] = [
        "<br>".join([*own[:4], *([f"and {len(own) - 4} more here"] if len(own) > 4 else [])]) for own in points["who"]
    ]
    return points
