"""What a setting costs each client: its accuracy minus its own with the setting off, sorted, and who the payers are.

Both runs have the same method, seed and partition, so that a difference is due to the setting. Malicious clients are
hollow and not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts import differences, paired
from app.charts.paired import FADED, SIGNIFICANT
from app.charts.plot.palette import base_layout, theme
from app.charts.plot.segments import joined
from app.data.thinning import quantile_note, quantiles
from app.statistics.hurt import HurtAndHelped, hurt_and_helped
from app.statistics.signed_rank import mean_ranks
from app.wording import clients as in_words
from app.wording import number, percent, signed_points

MIN_RANKED = 6  # clients with which a rank correlation is reported
CLEAR = 1.96  # times its standard error under independence, 1 / sqrt(n - 1)
ON, OFF = "on", "off"


@dataclass(frozen=True)
class Touched:
    """What the marks show by their color: ``words`` as in ``clients with larger updates``; a flag is shown by shape."""

    title: str
    words: str
    is_flag: bool = False


def data(clients: pd.DataFrame, traits: pd.DataFrame) -> pd.DataFrame:
    """[setting, split, seed, client, accuracy, test_size, is_malicious], ``setting`` on or off -> a row per client.

    [rank, split, client, seeds, samples, on, off, difference, is_malicious, touched], from the greatest gain to the
    greatest loss; accuracies are means over the seeds of a split. ``traits`` has [split, client, touched].
    """
    pairs = differences.data(clients.assign(method=clients["setting"]), ON, OFF)
    pairs = pairs.rename(columns={"a": ON, "b": OFF})
    who = clients.groupby(["split", "client"], as_index=False)["is_malicious"].any()
    table = pairs.merge(who, on=["split", "client"]).merge(traits, on=["split", "client"], how="left")
    columns = ["rank", "split", "client", "seeds", "samples", ON, OFF, "difference", "is_malicious", "touched"]
    return table[columns]


def counted(df: pd.DataFrame) -> HurtAndHelped:
    """Hurt and helped clients, without malicious ones."""
    return hurt_and_helped(df.loc[~df["is_malicious"], "difference"].to_numpy(float))


def who(df: pd.DataFrame) -> str:
    """``32 benign clients``, or ``40 clients`` where none are malicious."""
    return in_words(counted(df).clients, bool(df["is_malicious"].any()))


def heading(df: pd.DataFrame, method: str, setting: str) -> str:
    """``Who pays for it? With Krum, 25 of 32 benign clients of FedAvg lose, 3 gain``; says so if it may be chance."""
    found, of = counted(df), f"of {who(df)} of {method}"
    if found.hurt + found.helped == 0:
        return f"Who pays for it? With {setting}, none {of} gains or loses"
    loses, gains = ("loses" if found.hurt == 1 else "lose"), ("gains" if found.helped == 1 else "gain")
    counts = f"With {setting}, {found.hurt or 'none'} {of} {loses}, {found.helped or 'none'} {gains}"
    return f"Who pays for it? {counts}{'' if found.p < SIGNIFICANT else ', which may be chance'}"


def finding(df: pd.DataFrame, touched: Touched | None) -> str:
    """``25 of 32 benign clients are hurt (78 %, 95 % interval 61 to 89 %), 3 helped (9 %); median −30 points. ...``"""
    found = counted(df)
    if not found.clients:
        return "No client has an accuracy in both runs."
    own = df[~df["is_malicious"]]
    share = f"{percent(found.hurt / found.clients, 0)}, 95 % interval {100 * found.low:.0f} to {100 * found.high:.0f} %"
    median = signed_points(float(own["difference"].median()), float(own["samples"].min()))
    is_are = "is" if found.hurt == 1 else "are"
    counts = (
        f"{found.hurt or 'None'} of {who(df)} {is_are} hurt ({share}), {found.helped or 'none'} helped "
        f"({percent(found.helped / found.clients, 0)}); median {median} points."
    )
    return " ".join(filter(None, [counts, _leaning(own, touched)]))


def rank_correlation(df: pd.DataFrame) -> float:
    """Spearman's ρ of the trait and the difference; NaN for few clients or constants."""
    known = df[["touched", "difference"]].astype(float).dropna()
    if len(known) < MIN_RANKED:
        return float("nan")
    one, other = (mean_ranks(known[name].to_numpy()) for name in ("touched", "difference"))
    return float(np.corrcoef(one, other)[0, 1]) if one.std() and other.std() else float("nan")


def figure(df: pd.DataFrame, touched: Touched | None, color: str, chosen: Sequence[int] = ()) -> go.Figure:
    """A mark per client on a stem from zero; hollow: malicious. If clients are ``chosen``, the others fade.

    ``color`` colors the marks where the trait is a flag or unknown. Of more than 2,000 clients the marks are quantiles.
    """
    whole, fig = len(df), go.Figure()
    everyone, df = df, df.assign(who=paired.who(df)).iloc[quantiles(len(df))]
    y = 100 * df["difference"]
    nothing = [None] * len(df)
    fig.add_scatter(
        x=joined(df["rank"], df["rank"]) if len(df) else nothing,
        y=joined(np.zeros(len(df)), y),
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
        line={"color": theme().line, "width": 1.2},
    )
    for is_malicious in (False, True):
        own = df[df["is_malicious"] == is_malicious]
        if len(own):
            fig.add_trace(_marks(own, touched, color, chosen))
    base_layout(fig, height=430)
    fig.add_hline(y=0, line={"color": theme().ink, "width": 1})
    if len(everyone):
        _notes(fig, everyone)
    title = "clients, by difference" + quantile_note(whole, "it")
    fig.update_xaxes(title_text=title, showticklabels=False, ticks="", range=[0, whole + 1])
    fig.update_yaxes(title_text="accuracy minus that with it off, points")
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"}
    return fig.update_layout(showlegend=bool(df["is_malicious"].any()), legend=legend)


def _marks(own: pd.DataFrame, touched: Touched | None, color: str, chosen: Sequence[int]) -> go.Scatter:
    is_malicious, is_lit = bool(own["is_malicious"].iloc[0]), own["client"].isin(chosen)
    return go.Scatter(
        x=own["rank"],
        y=100 * own["difference"],
        mode="markers",
        name="malicious" if is_malicious else "benign",
        customdata=own[["client"]].to_numpy(),
        cliponaxis=False,
        marker=_hollow() if is_malicious else _filled(own, touched, color),
        marker_opacity=np.where(is_lit, 1, FADED) if len(chosen) else 1,
        hovertext=[_hover(row, touched) for row in own.itertuples()],
        hoverinfo="text",
    )


def _hollow() -> dict[str, Any]:
    return {"symbol": "circle-open", "size": 10, "color": theme().ink, "line": {"width": 1.6}}


def _filled(own: pd.DataFrame, touched: Touched | None, color: str) -> dict[str, Any]:
    look = {"symbol": "circle", "size": 10, "line": {"width": 1, "color": theme().muted}}
    if touched is None or touched.is_flag or own["touched"].isna().all():
        return look | {"color": color}
    bar = {"title": {"text": touched.title, "side": "right"}, "thickness": 10, "outlinewidth": 0, "nticks": 5}
    return (
        look
        | {"color": own["touched"].to_numpy(np.float32), "colorscale": "Cividis", "colorbar": bar}
        | {"showscale": True}
    )


def _hover(row: Any, touched: Touched | None) -> str:
    before, now = (percent(value, samples=row.samples) for value in (row.off, row.on))
    lines = [f"{row.who}: {signed_points(row.difference, row.samples)} points", f"{before} → {now}"]
    if row.is_malicious:
        lines.append("malicious, not counted")
    if touched is not None and not touched.is_flag and np.isfinite(row.touched):
        lines.append(f"{touched.title[:1].lower()}{touched.title[1:]}: {number(row.touched)}")
    return "<br>".join(lines)


def _notes(fig: go.Figure, df: pd.DataFrame) -> None:
    """How many are above and below zero."""
    found, points = counted(df), 100 * df["difference"].to_numpy(float)
    label = {"showarrow": False, "font": {"color": theme().muted}, "xref": "paper"}
    if found.helped:
        fig.add_annotation(x=0, y=points.max(), text=f"▲ {found.helped} helped", xanchor="left", yshift=14, **label)
    if found.hurt:
        fig.add_annotation(x=1, y=points.min(), text=f"▼ {found.hurt} hurt", xanchor="right", yshift=-14, **label)


def _leaning(own: pd.DataFrame, touched: Touched | None) -> str:
    """``Clients with larger updates lose more (Spearman's ρ −0.62).``"""
    if touched is None or touched.is_flag or not np.isfinite(rho := rank_correlation(own)):
        return ""
    how = f"(Spearman's ρ {rho:+.2f})".replace("-", "−")
    if abs(rho) * sqrt(own["touched"].notna().sum() - 1) < CLEAR:
        return f"Losses show no clear relation to {touched.title[:1].lower()}{touched.title[1:]} {how}."
    return f"Clients with {touched.words} {'lose more' if rho < 0 else 'lose less'} {how}."
