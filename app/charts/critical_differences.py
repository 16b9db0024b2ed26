"""The critical difference diagram of Demsar (JMLR 2006): mean ranks over splits, and which are close together.

It is a picture. Whether a pair is joined depends on the other methods (Benavoli, Corani, Mangili. JMLR 2016), so
verdicts on pairs come from Wilcoxon's test with Holm's correction.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.annotations import annotate
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme
from app.statistics.critical_difference import ALPHA, critical_difference, groups
from app.statistics.friedman import Omnibus, block_ranks, friedman
from app.wording import number, plural

MIN_METHODS, MIN_BLOCKS = 3, 2
ROW = 1.0  # between two names
BAR_GAP = 0.45  # between the bars of groups


@dataclass(frozen=True)
class Ranked:
    """``rows`` [method, algorithm, rank], best first; ``groups`` as (first, last) rows, empty without differences."""

    rows: pd.DataFrame
    test: Omnibus
    width: float  # the critical difference
    groups: tuple[tuple[int, int], ...]

    @property
    def differs(self) -> bool:
        return self.test.p <= ALPHA


def data(runs: pd.DataFrame) -> Ranked | None:
    """[method, algorithm, split, mean] -> the ranks; None for fewer than three methods or two splits that all have."""
    heads = runs.drop_duplicates("method")[["method", "algorithm"]]
    table = runs.pivot_table(index="split", columns="method", values="mean").reindex(columns=heads["method"])
    ranks = block_ranks(table.to_numpy(float))
    blocks, methods = ranks.shape
    if methods < MIN_METHODS or blocks < MIN_BLOCKS:
        return None
    test = friedman(ranks)
    rows = heads.assign(rank=test.mean_ranks).sort_values("rank", kind="stable").reset_index(drop=True)
    width = critical_difference(methods, blocks)
    close = groups(list(rows["rank"]), width) if test.p <= ALPHA else []
    return Ranked(rows, test, width, tuple(close))


def finding(ranked: Ranked) -> str:
    """``Mean ranks over 5 splits differ (permutation test p = 0.003): best is ...``"""
    test = ranked.test
    p = "p < 0.001" if test.p < 0.001 else f"p = {test.p:.3f}"
    how = "Friedman's test by permutations" if test.is_permuted else f"Iman and Davenport's F = {number(test.F)}"
    over = f"over {plural(test.blocks, 'split')}"
    if not ranked.differs:
        return f"The mean ranks {over} may differ by chance ({how}, {p}): no methods are grouped."
    first = ranked.rows.iloc[0]
    return f"The mean ranks {over} differ ({how}, {p}); {first['method']} is first with {first['rank']:.2f}."


def note(ranked: Ranked) -> str:
    joined = "bars join methods that are closer than this; " if ranked.groups else ""
    return (
        f"CD = {ranked.width:.2f} ranks (Nemenyi, 5 %); {joined}whether a pair is joined depends on the other methods: "
        "for verdicts on pairs, see the table."
    )


def figure(ranked: Ranked) -> go.Figure:
    """The axis at the top with rank 1 at the left; names of the better half at the left, the others at the right."""
    rows, fig = ranked.rows, go.Figure()
    look, n = looks(rows), len(rows)
    half, high = (n + 1) // 2, n
    bars = -BAR_GAP * (np.arange(len(ranked.groups)) + 1)
    below = float(bars.min()) if len(bars) else 0.0
    notes = []
    for i, row in enumerate(rows.itertuples()):
        is_left = i < half
        y = below - ROW * (1 + (i if is_left else n - 1 - i))
        color, end = look[row.method].color, 1 if is_left else high
        fig.add_scatter(
            x=[row.rank, row.rank, end],
            y=[0, y, y],
            mode="lines",
            line={"color": color, "width": 1.4},
            hoverinfo="text",
            hovertext=f"{row.method}: mean rank {row.rank:.2f}",
        )
        notes.append(
            {
                "x": end,
                "y": y,
                "text": f"{row.method} {row.rank:.2f}",
                "showarrow": False,
                "xanchor": "right" if is_left else "left",
                "xshift": -6 if is_left else 6,
                "font": {"color": color},
            }
        )
    fig.add_scatter(
        x=rows["rank"],
        y=[0] * n,
        mode="markers",
        marker={
            "size": 8,
            "color": [look[m].color for m in rows["method"]],
            "symbol": [look[m].symbol for m in rows["method"]],
        },
        hoverinfo="text",
        hovertext=[f"{row.method}: mean rank {row.rank:.2f}" for row in rows.itertuples()],
        cliponaxis=False,
    )
    for (first, last), y in zip(ranked.groups, bars, strict=True):
        ends = [rows["rank"][first] - 0.04, rows["rank"][last] + 0.04]
        fig.add_scatter(x=ends, y=[y, y], mode="lines", line={"color": theme().ink, "width": 4}, hoverinfo="skip")
    top, width = 0.9, min(ranked.width, n - 1)
    fig.add_scatter(
        x=[1, 1 + width], y=[top, top], mode="lines", line={"color": theme().ink, "width": 2}, hoverinfo="skip"
    )
    notes.append({"x": 1 + width / 2, "y": top, "yshift": 10, "text": f"CD = {ranked.width:.2f}", "showarrow": False})
    lowest = below - ROW * (half + 0.6)
    base_layout(fig, height=round(90 + 24 * (top + 0.8 - lowest)))
    annotate(fig, notes)
    letters = 7 * rows["method"].str.len().max() + 45
    fig.update_xaxes(
        title_text="mean rank over splits, 1 is best",
        side="top",
        showline=False,
        range=[1, high],
        tickvals=list(range(1, high + 1)),
    )
    fig.update_yaxes(visible=False, range=[lowest, top + 0.8])
    return fig.update_layout(showlegend=False, margin={"l": letters, "r": letters})
