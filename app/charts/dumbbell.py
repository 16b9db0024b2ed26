"""Lowest, mean and top accuracy of each method, over seeds."""

from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.annotations import annotate
from app.charts.plot.bands import whiskers
from app.charts.plot.method_styles import Look, looks
from app.charts.plot.palette import base_layout, theme, translucent
from app.data.comparison import doubt, per_method, per_run, ranking, unit_of
from app.wording import capital, decimals, names, percent, percent_pm, plural, points

MAX_ROOMY = 14  # with more methods, the means have no numbers above them
LINE_PX = 3
BEYOND_PX = 18  # the number of the lowest tail reaches this far beyond the plot on a phone
BELOW = 0.26  # where the chosen clients are marked, in rows
MAX_NUMBERED = 6  # with more chosen clients, their numbers are omitted
SortKey = Literal["mean", "lowest", "top", "spread"]
MEANING: dict[SortKey, str] = {
    "mean": "highest mean",
    "lowest": "highest mean of the lowest {share} %",
    "top": "highest mean of the top {share} %",
    "spread": "smallest gap between the two tails",
}


def data(clients: pd.DataFrame, share: float, by: SortKey = "mean", other: pd.DataFrame | None = None) -> pd.DataFrame:
    """[run, method, algorithm, split, seed, client, accuracy, test_size] -> a row per method, the best by ``by`` first.

    ``other`` holds the same clients under the methods' other model; its mean becomes the column ``other``.
    ``spread`` is the distance of the two tails, least first. ``may_be_best`` by ``by``: see ``comparison.ranking``.
    ``unit`` is what ``seeds`` counts (``comparison.unit_of``).
    """
    runs = per_run(clients, share)
    runs["spread"] = runs["top"] - runs["lowest"]
    rows = per_method(runs)
    rows["spread"] = rows["top"] - rows["lowest"]
    rows["may_be_best"] = rows["method"].isin(ranking(runs, by, is_higher_better=by != "spread").tied)
    rows = rows.assign(other=float("nan"), other_samples=float("nan"), unit=unit_of(runs))
    if other is not None and len(other):
        found = per_method(per_run(other, share)).set_index("method")
        rows = rows.assign(other=rows["method"].map(found["mean"]), other_samples=rows["method"].map(found["samples"]))
    columns = [
        "method",
        "algorithm",
        "lowest",
        "mean",
        "top",
        "spread",
        "lowest_pm",
        "mean_pm",
        "top_pm",
        "other",
        "other_samples",
        "may_be_best",
        "seeds",
        "clients",
        "tail",
        "samples",
        "tail_samples",
        "unit",
    ]
    return rows.sort_values(by, ascending=by == "spread", kind="stable")[columns].reset_index(drop=True)


def finding(df: pd.DataFrame, by: SortKey = "mean", share: float = 0.05, is_ranked: bool = True) -> str:
    """``Highest mean: Ditto with 97.41 %; CGPFL may be as good.``, also for screen readers.

    ``Mean: Ditto 97.41 % to CGPFL 61.20 %.`` of methods that are not ranked.
    """
    first, what = df.iloc[0], MEANING[by].format(share=f"{100 * share:g}").capitalize()
    value = _value(first, by)
    if not is_ranked:
        last, measure = df.iloc[-1], capital(what.partition(" ")[2])
        return f"{measure}: {first['method']} {value} to {last['method']} {_value(last, by)}."
    others = list(df.loc[df["may_be_best"], "method"])[1:]
    unsure = doubt(int(df["seeds"].max()), others, unit=first["unit"]) if len(df) > 1 else ""
    return f"{what}: {first['method']} with {value}{unsure}."


def figure(
    df: pd.DataFrame, share: float = 0.05, other_name: str = "", clients: pd.DataFrame | None = None
) -> go.Figure:
    """One line per method: a triangle at each tail, the mean with its whisker over seeds, a ring for the other model.

    A hairline connects the ring to its method. Many methods are drawn closer, with their means at the right.
    ``clients`` [method, client, accuracy, samples] are marked below their method's line.
    """
    look, is_dense = looks(df), len(df) > MAX_ROOMY
    own, texts = [look[method] for method in df["method"]], [_hover(row, share) for row in df.itertuples()]
    marked = pd.DataFrame() if clients is None else clients[clients["method"].isin(df["method"])]
    colors, row_px = [style.color for style in own], (25 if is_dense else 44) + (0 if marked.empty else 8)
    fig = go.Figure(
        [
            _lines(df, colors, row_px),
            _tails(df, colors, texts, 9 if is_dense else 12),
            _means(df, own, texts, is_dense),
        ]
    )
    if df["other"].notna().any():
        fig.add_traces([_hairlines(df), _rings(df, other_name)])
    if not marked.empty:
        fig.add_trace(_chosen(df, marked, is_dense))
    base_layout(fig, height=120 + row_px * max(len(df), 2))
    known = [] if marked.empty else [100 * marked["accuracy"]]
    least = min(series.min() for series in (100 * df["lowest"], 100 * df["other"].fillna(1), *known))
    most = max(series.max() for series in (100 * df["top"], 100 * df["other"].fillna(0), *known))
    margin = 0.17 * (most - least) if len(df) else 1
    fig.update_xaxes(title_text="test accuracy, %", range=[least - margin, most + margin])
    fig.update_yaxes(
        tickvals=list(range(len(df))),
        ticktext=list(df["method"]),
        range=[len(df) - 0.4, -0.7],
        ticks="",
        ticklabelstandoff=BEYOND_PX,
        gridcolor=translucent(theme().line, 0.6),
    )
    if is_dense:
        annotate(
            fig,
            (
                {
                    "xref": "paper",
                    "x": 1,
                    "xanchor": "left",
                    "xshift": 24,
                    "y": at,
                    "showarrow": False,
                    "text": _printed(row),
                    "font": {"color": look[row.method].color},
                }
                for at, row in enumerate(df.itertuples())
            ),
        )
        fig.update_layout(margin_r=72)
    return fig.update_layout(showlegend=False)


def _lines(df: pd.DataFrame, colors: list[str], row_px: int) -> go.Bar:
    """Draw a line from tail to tail, as thin bars: a trace of bars can have many colors, one of lines cannot."""
    return go.Bar(
        base=100 * df["lowest"],
        x=100 * (df["top"] - df["lowest"]),
        y=df.index,
        orientation="h",
        hoverinfo="skip",
        marker={"color": colors, "line": {"width": 0}},
        width=LINE_PX / row_px,
    )


def _tails(df: pd.DataFrame, colors: list[str], texts: list[list[str]], size: int) -> go.Scatter:
    """All lowest tails, their numbers in bold, then all top tails. Numbers that would meet a hairline are raised."""
    n, values = len(df), [*(100 * df["lowest"]), *(100 * df["top"])]
    texts_of = [f"{value:.{decimals(of, 1)}f}" for value, of in zip(values, [*df["tail_samples"]] * 2, strict=True)]
    beyond = [*(df["other"] < df["lowest"]), *(df["other"] > df["top"])]
    return go.Scatter(
        x=values,
        y=[*df.index] * 2,
        mode="markers+text",
        cliponaxis=False,
        customdata=[*df["method"]] * 2,
        marker={"symbol": ["triangle-left"] * n + ["triangle-right"] * n, "size": size, "color": colors * 2},
        text=[f"<b>{text}</b>" if i < n else text for i, text in enumerate(texts_of)],
        textposition=[
            f"{'top' if is_beyond else 'middle'} {'left' if i < n else 'right'}" for i, is_beyond in enumerate(beyond)
        ],
        hoverinfo="text",
        hovertext=[lowest for lowest, *_ in texts] + [top for *_, top in texts],
    )


def _means(df: pd.DataFrame, own: list[Look], texts: list[list[str]], is_dense: bool) -> go.Scatter:
    return go.Scatter(
        x=100 * df["mean"],
        y=df.index,
        mode="markers" if is_dense else "markers+text",
        textposition="top center",
        text=[_printed(row) for row in df.itertuples()],
        customdata=list(df["method"]),
        cliponaxis=False,
        error_x=whiskers(100 * df["mean_pm"], theme().ink),
        hoverinfo="text",
        hovertext=[mean for _, mean, _ in texts],
        marker={
            "symbol": [look.symbol for look in own],
            "size": 10 if is_dense else 13,
            "color": [look.color for look in own],
            "line": {"width": 1, "color": theme().paper},
        },
    )


def _printed(row: Any) -> str:
    return f"{100 * row.mean:.{decimals(row.samples, 1)}f}"


def _hairlines(df: pd.DataFrame) -> go.Scatter:
    """Draw a line from each ring to the mean of its method."""
    own = df[df["other"].notna()]
    return go.Scatter(
        x=[x for row in own.itertuples() for x in (100 * row.other, 100 * row.mean, None)],
        y=[y for at in own.index for y in (at, at, None)],
        mode="lines",
        hoverinfo="skip",
        line={"color": theme().ink, "width": 1},
    )


def _rings(df: pd.DataFrame, name: str) -> go.Scatter:
    own = df[df["other"].notna()]
    return go.Scatter(
        x=100 * own["other"],
        y=own.index,
        mode="markers",
        cliponaxis=False,
        customdata=list(own["method"]),
        hoverinfo="text",
        hovertext=[
            f"{row.method}: {name} model {percent(row.other, samples=row.other_samples)}" for row in own.itertuples()
        ],
        marker={"symbol": "circle", "size": 10, "color": theme().paper, "line": {"width": 1.5, "color": theme().ink}},
    )


def _chosen(df: pd.DataFrame, clients: pd.DataFrame, is_dense: bool) -> go.Scatter:
    """A dot per accuracy that chosen clients have under a method, with their numbers if these are few."""
    row_of = {method: at for at, method in enumerate(df["method"])}
    dots = clients.groupby(["method", "accuracy"], as_index=False).agg(who=("client", list), samples=("samples", "min"))
    is_numbered = clients["client"].nunique() <= MAX_NUMBERED and not is_dense
    return go.Scatter(
        x=100 * dots["accuracy"],
        y=dots["method"].map(row_of) + BELOW,
        mode="markers+text" if is_numbered else "markers",
        text=[", ".join(map(str, own)) for own in dots["who"]],
        textposition="bottom center",
        textfont={"size": 10, "color": theme().ink},
        cliponaxis=False,
        customdata=list(dots["method"]),
        hoverinfo="text",
        hovertext=[
            f"{row.method}: {plural(len(row.who), 'client')} {names(map(str, row.who), 8)}, "
            f"{percent(row.accuracy, samples=row.samples)}"
            for row in dots.itertuples()
        ],
        marker={"symbol": "circle", "size": 6, "color": theme().ink},
    )


def _value(row: pd.Series, by: SortKey) -> str:
    samples = row["samples" if by == "mean" else "tail_samples"]
    return points(row[by], samples) if by == "spread" else percent(row[by], samples=samples)


def _hover(row: Any, share: float) -> list[str]:
    tail = f"{100 * share:g} %"
    parts = (
        (f"lowest {tail}", "lowest", row.tail, row.tail_samples),
        ("mean", "mean", row.clients, row.samples),
        (f"top {tail}", "top", row.tail, row.tail_samples),
    )
    texts, over = [], plural(row.seeds, row.unit)
    for title, name, count, samples in parts:
        value = percent_pm(getattr(row, name), getattr(row, f"{name}_pm"), samples=samples)
        texts.append(f"{row.method}: {title} {value}<br>{count} of {row.clients} clients, {over}")
    return texts
