"""A paper's numbers and ours: for each printed cell the mean over seeds, its deviation, and the difference."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot.bands import whiskers
from app.charts.plot.method_styles import looks
from app.charts.plot.palette import base_layout, theme, translucent
from app.wording import percent, percent_pm, plural, signed_points
from engine.config.paper_tables import Cell
from engine.core.vocabulary import summary_at
from storage import RunRecord

COLUMNS = (
    "experiment",
    "table",
    "method",
    "algorithm",
    "model",
    "measure",
    "paper",
    "ours",
    "pm",
    "seeds",
    "seeds_planned",
    "difference",
)
MEASURES = {
    "mean": "mean",
    "weighted_mean": "mean, weighted by test samples",
    "lowest5": "lowest 5 %",
    "top5": "top 5 %",
    "std": "std over clients",
    "cv": "CV over clients",
}
CLOSE = 0.01  # a point
ROW = 30  # pixels


def data(cells: Sequence[Cell], runs: Mapping[tuple[str, str], Sequence[RunRecord | None]]) -> pd.DataFrame:
    """A row per printed cell that has a run, as fractions. ``runs``: (experiment, label) -> one for each seed.

    Only runs that are done count. NaN: not printed, not run, or one seed (``pm``, the sample deviation over seeds).
    """
    rows = []
    for cell in cells:
        own = runs.get((cell.experiment, cell.label))
        if own is None:
            continue
        values = [v for run in own if run and run.status == "done" and (v := _value(run, cell)) is not None]
        ours = float(np.mean(values)) if values else np.nan
        paper = np.nan if cell.value is None else cell.value
        rows.append(
            {
                "experiment": cell.experiment,
                "table": cell.table or "",
                "method": cell.label,
                "algorithm": next((run.algorithm for run in own if run), ""),
                "model": cell.model,
                "measure": cell.measure,
                "paper": paper,
                "ours": ours,
                "pm": float(np.std(values, ddof=1)) if len(values) > 1 else np.nan,
                "seeds": len(values),
                "seeds_planned": len(own),
                "difference": ours - paper,
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def finding(df: pd.DataFrame, scale: str) -> str:
    """``At quick scale, 5 of 9 cells are within 1 point of the paper. Largest difference: ...``; nothing is omitted."""
    here = df.dropna(subset=["difference"])
    if here.empty:
        return f"No completed runs at {scale} scale yet for the {plural(len(df), 'printed number')}."
    close = int((here["difference"].abs() <= CLOSE + 1e-9).sum())
    far = here.loc[here["difference"].abs().idxmax()]
    what = f"{far['method']}, {MEASURES[far['measure']]}" if df["measure"].nunique() > 1 else far["method"]
    return (
        f"At {scale} scale, {close} of {plural(len(here), 'cell')} {'is' if close == 1 else 'are'} within 1 point of "
        f"the paper. Largest difference: {what} in “{far['experiment']}”, paper {percent(far['paper'])}, ours "
        f"{percent(far['ours'])}, {signed_points(far['difference'])} points."
    )


def figure(df: pd.DataFrame) -> go.Figure:
    """A row per cell of one experiment and measure: a ring for the paper, the method's marker for ours."""
    look, fig = looks(df), go.Figure()
    names = [f"{row.method}, global" if row.model == "global" else row.method for row in df.itertuples()]
    for at, row in enumerate(df.itertuples()):
        style = look[row.method]
        known = [100 * x for x in (row.paper, row.ours) if pd.notna(x)]
        fig.add_scatter(
            x=known,
            y=[at] * len(known),
            mode="lines",
            hoverinfo="skip",
            line={"width": 2, "color": translucent(style.color, 0.55)},
        )
        if pd.notna(row.ours):
            fig.add_scatter(
                x=[100 * row.ours],
                y=[at],
                mode="markers",
                hoverinfo="text",
                cliponaxis=False,
                hovertext=f"{row.method}, ours: {percent_pm(row.ours, row.pm)}<br>{row.seeds} of "
                f"{plural(row.seeds_planned, 'seed')}, {signed_points(row.difference)} points",
                marker={"symbol": style.symbol, "size": 13, "color": style.color},
                error_x=whiskers([100 * row.pm], style.color),
            )
        if pd.notna(row.paper):
            fig.add_scatter(
                x=[100 * row.paper],
                y=[at],
                mode="markers",
                hoverinfo="text",
                cliponaxis=False,
                hovertext=f"{row.method}, paper: {percent(row.paper)}",
                marker={"symbol": "circle-open", "size": 14, "color": theme().ink, "line": {"width": 2}},
            )
    base_layout(fig, height=110 + ROW * max(len(df), 2))
    measure = MEASURES[df["measure"].iloc[0]] if len(df) else ""
    fig.update_xaxes(title_text=f"{measure}, %")
    fig.update_yaxes(
        tickvals=list(range(len(df))),
        ticktext=names,
        range=[len(df) - 0.4, -0.6],
        ticks="",
        gridcolor=translucent(theme().line, 0.6),
    )
    return fig.update_layout(showlegend=False)


def for_screen(df: pd.DataFrame) -> pd.DataFrame:
    """The cells as a table in percent; missing values are empty."""
    shown = pd.DataFrame({"experiment": df["experiment"], "method": df["method"], "model": df["model"]})
    if df["table"].any():
        shown.insert(1, "table", df["table"])
    shown["measure"] = df["measure"].map(MEASURES)
    for name in ("paper", "ours", "pm", "difference"):
        shown[name] = 100 * df[name]
    shown["seeds"] = [f"{row.seeds} of {row.seeds_planned}" for row in df.itertuples()]
    return shown


def _value(run: RunRecord, cell: Cell) -> float | None:
    """The value of the last round."""
    return summary_at(run.summary, cell.model).get(cell.measure)
