"""Who gains, who loses: the same clients under two methods, A against B."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from scipy.stats import wilcoxon

from app.method_looks import looks
from app.palette import base_layout, ground
from app.wording import plural, signed_points


@dataclass(frozen=True)
class Verdict:
    """Counts of clients, the median of their differences (fractions), and the p-value of Wilcoxon's signed ranks."""

    better: int
    worse: int
    equal: int
    median: float
    p: float

    def sentence(self, a: str, b: str, seeds: int = 1) -> str:
        """``31 better, 9 worse with CGPFL K=4 than with Ditto, median +2.10 points (...)``."""
        counts = f"{self.better} better, {self.worse} worse" + (f", {self.equal} equal" if self.equal else "")
        pairs = plural(self.better + self.worse + self.equal, "pair") + (f" over {seeds} seeds" if seeds > 1 else "")
        p = "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}" if np.isfinite(self.p) else "no test: too few differ"
        median = signed_points(round(self.median, 4) + 0.0)  # no minus before 0.00
        return f"{counts} with {a} than with {b}, median {median} points (Wilcoxon {p}, {pairs})."


def data(clients: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """[method, seed, client, accuracy, ...] -> [seed, client, a, b, difference = a - b], the greatest gain first.

    Only clients that both methods have, of seeds that both have.
    """
    keys = ["seed", "client"]
    first, second = (clients.loc[clients["method"] == m, [*keys, "accuracy"]] for m in (a, b))
    pairs = first.merge(second, on=keys, suffixes=("_a", "_b")).rename(columns={"accuracy_a": "a", "accuracy_b": "b"})
    pairs["difference"] = pairs["a"] - pairs["b"]
    return pairs.sort_values(["difference", *keys], ascending=[False, True, True]).reset_index(drop=True)


def verdict(df: pd.DataFrame) -> Verdict:
    """Zero differences count as equal and stay out of the test, as Wilcoxon has it; under six there is none."""
    difference = df["difference"].to_numpy(float)
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    enough = better + worse >= 6
    p = float(wilcoxon(difference[difference != 0], method="auto").pvalue) if enough else float("nan")
    return Verdict(
        better, worse, len(difference) - better - worse, float(np.median(difference)) if len(df) else float("nan"), p
    )


def figure(df: pd.DataFrame, a: str, b: str, methods: pd.DataFrame) -> go.Figure:
    """B across, A up: above the diagonal A is better. ``methods`` [method, algorithm] gives the colours."""
    look, fig = looks(methods), go.Figure()
    low, high = 100 * df[["a", "b"]].min().min(), 100 * df[["a", "b"]].max().max()
    pad = max(1.0, 0.05 * (high - low))
    ends = [low - pad, min(high + pad, 101)]
    fig.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": ground().muted, "width": 1, "dash": "dot"}, hoverinfo="skip"
    )
    marks = (
        (1, look[a].color, "triangle-up"),
        (-1, look[b].color, "triangle-down"),
        (0, ground().muted, "circle-open"),
    )
    for sign, color, symbol in marks:
        points = _stacked(df[np.sign(df["difference"]) == sign])
        fig.add_scatter(
            x=100 * points["b"], y=100 * points["a"], mode="markers", text=points["who"],
            customdata=100 * points["difference"],
            marker={"color": color, "symbol": symbol, "size": 6 + 2 * np.sqrt(points["count"])}, cliponaxis=False,
            marker_line={"width": 1.2, "color": color},
            hovertemplate=f"%{{text}}<br>{a} %{{y:.2f}} %, {b} %{{x:.2f}} %: %{{customdata:+.2f}}<extra></extra>",
        )  # fmt: skip
    base_layout(fig, height=400)
    fig.update_xaxes(title_text=f"{b}, accuracy of the client, %", range=ends, constrain="domain")
    fig.update_yaxes(title_text=f"{a}, %", range=ends, scaleanchor="x", constrain="domain")
    return fig.update_layout(showlegend=False)


def _stacked(df: pd.DataFrame) -> pd.DataFrame:
    """Clients at the same point become one mark, larger: small test sets give few different accuracies."""
    who = [f"client {c}, seed {s}" for c, s in zip(df["client"], df["seed"], strict=True)]
    points = (
        df.assign(who=who)
        .groupby(["a", "b", "difference"], as_index=False)
        .agg(who=("who", list), count=("who", "size"))
    )
    points["who"] = [
        "<br>".join([*own[:4], *([f"and {len(own) - 4} more here"] if len(own) > 4 else [])]) for own in points["who"]
    ]
    return points
