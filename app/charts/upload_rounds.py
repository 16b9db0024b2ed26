"""What happened to the uploads of a run, round by round: a small panel for each quantity that the run recorded."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.charts.plot.palette import base_layout, cluster_colors, group_dash, theme
from app.wording import number, plural

PANEL_PX, GAP_PX, ENDS_PX = 96, 34, 60
DASHES = {"solid": "solid", "dash": "dashed", "dot": "dotted"}


@dataclass(frozen=True)
class Panel:
    """``lines`` are names of recorded scalars, or of means over recorded clients, and their words.

    Each is drawn ``times`` its value.
    """

    title: str
    lines: Mapping[str, str]
    times: float = 1.0


PANELS = (
    Panel("uploads", {"arrived": "arrived", "late": "late", "dropped": "dropped out"}),
    Panel("wasted gradients", {"wasted_gradients": "wasted gradient evaluations"}),
    Panel("wasted MB", {"wasted_bytes": "wasted megabytes"}, 1e-6),
    Panel("simulated s", {"simulated_s": "simulated seconds so far"}),
    Panel(
        "update norm",
        {"update_norm": "update norm", "benign_norm": "benign update norm", "malicious_norm": "malicious update norm"},
    ),
    Panel(
        "cosine",
        {
            "update_cosine": "mean cosine",
            "benign_cosine": "benign cosine",
            "malicious_cosine": "malicious cosine",
        },
    ),
    Panel("weight, %", {"malicious_weight": "malicious clients' share in the update"}, 100.0),
    Panel("fallbacks", {"aggregator.fell_back": "mean taken, too few uploads"}),
    Panel("error", {"compression.error": "compression error, relative"}),
    Panel("unsent norm", {"residual_norm": "what clients have not sent"}),
    Panel("ε", {"privacy.epsilon": "ε", "largest_epsilon": "largest ε", "median_epsilon": "median ε"}),
    Panel("C", {"privacy.clip": "clipping norm C"}),
    Panel("clipped, %", {"privacy.clipped": "clipped updates"}, 100.0),
    Panel("norm", {"privacy.noise_norm": "noise", "privacy.signal_norm": "signal"}),
)
RECORDED = tuple(name for panel in PANELS for name in panel.lines)


def data(values: pd.DataFrame) -> pd.DataFrame:
    """[round, name, value] of recorded quantities -> [panel, line, round, value] of the panels that say something.

    Quantities that are 0 in every round, such as fallbacks to the mean, have no panel of their own.
    """
    parts = []
    for panel in PANELS:
        own = values[values["name"].isin(list(panel.lines))].dropna(subset=["value"])
        if own.empty or not own["value"].any():
            continue
        words = own["name"].map(panel.lines)
        parts.append(own.assign(panel=panel.title, line=words, value=own["value"] * panel.times))
    columns = ["panel", "line", "round", "value"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def figure(df: pd.DataFrame, at: int) -> go.Figure:
    """The panels below one another, with a line at round ``at``; lines of a panel also differ in dash."""
    panels = list(dict.fromkeys(df["panel"]))
    fig = make_subplots(len(panels), 1, shared_xaxes=True, vertical_spacing=_spacing(len(panels)))
    for row, panel in enumerate(panels, start=1):
        own = df[df["panel"] == panel]
        lines = list(dict.fromkeys(own["line"]))
        for i, (line, hue) in enumerate(zip(lines, cluster_colors(max(len(lines), 2)), strict=False)):
            mine = own[own["line"] == line]
            fig.add_scatter(
                x=mine["round"],
                y=mine["value"].astype("float32"),
                mode="lines" if len(mine) > 1 else "markers",
                name=line,
                line={"color": hue if len(lines) > 1 else theme().accent, "width": 1.8, "dash": group_dash(i)},
                hovertemplate=f"{line}, round %{{x}}: %{{y:.4g}}<extra></extra>",
                row=row,
                col=1,
            )
        fig.add_vline(x=at, line={"color": theme().muted, "width": 1, "dash": "dot"}, row=row, col=1)
    base_layout(fig, height=ENDS_PX + len(panels) * (PANEL_PX + GAP_PX))
    for row, panel in enumerate(panels, start=1):
        axis = {"rangemode": "normal" if panel == "cosine" else "tozero", "nticks": 4}
        fig.update_yaxes(title_text=panel, row=row, col=1, **axis)
        _name_lines(fig, df[df["panel"] == panel], row)
    fig.update_xaxes(title_text="round", row=len(panels), col=1)
    return fig.update_layout(showlegend=False, margin_t=26)


def finding(df: pd.DataFrame) -> str:
    """``Over 40 rounds: 19.5 uploads arrived per round; ...``: means, totals, first and last values in a sentence."""
    computed = df[df["round"] > 0]  # some quantities have a value before the first round
    if computed.empty:
        return "Nothing was recorded about uploads."
    parts = [_in_words(str(line), own.sort_values("round")) for line, own in computed.groupby("line", sort=False)]
    return f"Over {plural(computed['round'].nunique(), 'round')}: {'; '.join(parts)}."


def _in_words(line: str, own: pd.DataFrame) -> str:
    (first, last), (begin, end) = own["value"].iloc[[0, -1]], own["round"].iloc[[0, -1]]
    if line in ("arrived", "late", "dropped out"):
        return f"{number(own['value'].mean())} uploads {line} per round"
    if line.startswith(("wasted", "mean taken")):
        return f"{number(own['value'].sum())} {line}"
    unit = " %" if own["panel"].iloc[0].endswith("%") else ""
    if len(own) == 1:
        return f"{line} {number(last)}{unit}"
    return f"{line} {number(first)}{unit} in round {begin}, {number(last)}{unit} in round {end}"


def _name_lines(fig: go.Figure, own: pd.DataFrame, row: int) -> None:
    """The lines of a panel, named above it."""
    lines = list(dict.fromkeys(own["line"]))
    words = [f"{DASHES[group_dash(i)]}: {line}" for i, line in enumerate(lines)] if len(lines) > 1 else lines
    axis = "" if row == 1 else str(row)
    fig.add_annotation(
        xref="paper",
        x=0,
        yref=f"y{axis} domain",
        y=1,
        text=" · ".join(words),
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        yshift=2,
        font={"size": 12, "color": theme().muted},
    )


def _spacing(count: int) -> float:
    """The share of the height between two panels."""
    return 0.0 if count < 2 else float(np.clip(GAP_PX / (count * (PANEL_PX + GAP_PX)), 0, 1 / (count - 1)))
