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
        return f"{counts} with {a} than with {b}, median {signed_points(self.median)} points (Wilcoxon {p}, {pairs})."


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
    return Verdict(better, worse, len(difference) - better - worse, float(np.median(difference)) if len(df) else float("nan"), p)


def figure(df: pd.DataFrame, a: str, b: str, methods: pd.DataFrame) -> go.Figure:
    """B across, A up: above the diagonal A is better. ``methods`` [method, algorithm] gives the colours."""
    look, fig = looks(methods), go.Figure()
    low, high = 100 * df[["a", "b"]].min().min(), 100 * df[["a", "b"]].max().max()
    pad = max(1.0, 0.05 * (high - low))
    ends = [low - pad, min(high + pad, 101)]
    fig.add_scatter(x=ends, y=ends, mode="lines", line={"color": ground().muted, "width": 1, "dash": "dot"}, hoverinfo="skip")
    marks = ((df["difference"] > 0, look[a].color, "triangle-up"), (df["difference"] < 0, look[b].color, "triangle-down"),
             (df["difference"] == 0, ground().muted, "circle-open"))  # fmt: skip
    for chosen, color, symbol in marks:
        own = df[chosen]
        fig.add_scatter(
            x=100 * own["b"], y=100 * own["a"], mode="markers", text=[f"client {r.client}, seed {r.seed}" for r in own.itertuples()],
            marker={"color": color, "symbol": symbol, "size": 8, "opacity": 0.8}, customdata=100 * own["difference"],
            hovertemplate=f"%{{text}}<br>{a} %{{y:.2f}} %, {b} %{{x:.2f}} %<br>difference %{{customdata:+.2f}} points<extra></extra>",
        )  # fmt: skip
    base_layout(fig, height=400)
    fig.update_xaxes(title=f"{b}, accuracy of the client, %", range=ends, constrain="domain")
    fig.update_yaxes(title=f"{a}, %", range=ends, scaleanchor="x", constrain="domain")
    return fig.update_layout(showlegend=False)
