"""The comparison as a table: for the screen, for a spreadsheet, for a paper."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from app import table_files
from app.charts.cost import COST_NAMES
from app.comparison import SUMMARIES, per_method
from app.latex import booktabs, escape
from app.thinning import evenly
from app.wording import MODELS, WHEN

NUMBERS = (*SUMMARIES, *COST_NAMES)
MOST_BARS = 60  # in a narrow cell of the table
PERCENT = ("mean", "weighted_mean", "lowest", "top", "std")  # cv is a ratio; it stays one


def data(runs: pd.DataFrame) -> pd.DataFrame:
    """[model, when, run, method, ..., <summaries>, <costs>] -> a row a method, model and rule, with ± over seeds.

    Values are fractions; ``<name>_pm`` is the sample deviation over seeds, NaN for one seed.
    """
    parts = [
        per_method(own, NUMBERS).assign(model=model, when=when)
        for (model, when), own in runs.groupby(["model", "when"], sort=False)
    ]
    spreads = [name for column in NUMBERS for name in (column, f"{column}_pm")]
    columns = ["method", "algorithm", "model", "when", *spreads, "clients", "tail", "seeds"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def for_screen(table: pd.DataFrame, clients: pd.DataFrame) -> pd.DataFrame:
    """Percent where it is read as percent, and the clients' accuracies, worst first, as at most MOST_BARS bars.

    ``clients`` [method, model, when, accuracy].
    """
    keys = ["method", "model", "when"]
    shown = pd.DataFrame({"method": table["method"], "model": table["model"].map(MODELS), "round": table["when"]})
    for name in SUMMARIES:
        shown[name] = table[name] * (100 if name in PERCENT else 1)
        if name in ("mean", "lowest"):
            shown[f"{name}_pm"] = 100 * table[f"{name}_pm"]
    bars = {row: _bars(100 * own["accuracy"].to_numpy()) for row, own in clients.groupby(keys)}
    shown["bars"] = [bars.get(row, []) for row in table[keys].itertuples(index=False, name=None)]
    for name in (*COST_NAMES, "clients", "seeds"):
        shown[name] = table[name].round() if name == "gradient_evaluations" else table[name]
    return shown


def _bars(percent: np.ndarray) -> list[float]:
    return [float(value) for value in np.sort(percent)[evenly(len(percent), MOST_BARS)]]


def to_csv(table: pd.DataFrame) -> str:
    """Every number, as fractions, with the rule each was taken by."""
    named = table.assign(when=table["when"].map(lambda when: WHEN.get(when, when)))
    return named.to_csv(index=False, float_format="%.6g")


def to_latex(table: pd.DataFrame, tail: int, caption: str) -> str:
    """Rows of one model and rule as a booktabs table, in percent; the best mean, weighted mean, tails in bold."""
    rows = [
        [escape(row["method"]), *cells, f"{row['cv']:.3f}", f"{row['megabytes']:.2f}", str(row["seeds"])]
        for row, cells in _printed(table, _latex_cell)
    ]
    return booktabs([escape(title) for title in _print_titles(tail)], rows, "l" + "r" * 8, escape(caption))


def to_markdown(table: pd.DataFrame, tail: int, caption: str) -> str:
    """The same rows and numbers as in LaTeX, the best in bold."""
    return table_files.pipes(_print_titles(tail), _markdown_rows(table), "l" + "r" * 8, caption)


def for_print(table: pd.DataFrame, tail: int) -> pd.DataFrame:
    """Every rule, in words: percent and ± over seeds in one cell."""
    rows = [
        [row["method"], MODELS[row["model"]], WHEN.get(row["when"], row["when"]), *cells, f"{row['cv']:.3f}",
         f"{row['megabytes']:.2f}", f"{row['seconds']:.1f}", f"{row['clients']}", f"{row['seeds']}"]
        for row, cells in _printed(table, _text_cell)
    ]  # fmt: skip
    method, *numbers, seeds = _print_titles(tail)
    return pd.DataFrame(rows, columns=[method, "Model", "Round", *numbers, "Seconds", "n", seeds])


def _print_titles(tail: int) -> list[str]:
    return ["Method", "Mean", "Weighted mean", f"Lowest {tail} %", f"Top {tail} %", "Std", "CV", "MB", "Seeds"]


def _markdown_rows(table: pd.DataFrame) -> list[list[str]]:
    return [
        [table_files.unmarked(row["method"]), *cells, f"{row['cv']:.3f}", f"{row['megabytes']:.2f}", str(row["seeds"])]
        for row, cells in _printed(table, lambda *cell: f"**{_text_cell(*cell)}**" if cell[2] else _text_cell(*cell))
    ]


def _printed(
    table: pd.DataFrame, cell: Callable[[float, float, bool], str]
) -> Iterator[tuple[dict[Hashable, Any], list[str]]]:
    """Each row, and its percentages as ``cell(value, spread, is the best)`` writes them."""
    best = {name: table[name].max() for name in ("mean", "weighted_mean", "lowest", "top")}
    for row in table.to_dict("records"):
        yield row, [cell(row[name], row[f"{name}_pm"], row[name] == best.get(name)) for name in PERCENT]


def _latex_cell(value: float, spread: float, is_best: bool) -> str:
    number = f"{100 * value:.2f}"
    text = number if pd.isna(spread) else rf"{number} \pm {100 * spread:.2f}"
    return rf"$\mathbf{{{text}}}$" if is_best else f"${text}$"


def _text_cell(value: float, spread: float, is_best: bool) -> str:
    return f"{100 * value:.2f}" if pd.isna(spread) else f"{100 * value:.2f} ± {100 * spread:.2f}"


def column_titles(tail: int) -> dict[str, str]:
    """What the columns of ``for_screen`` are called."""
    return {
        "method": "Method", "model": "Model", "round": "Round", "mean": "Mean %", "mean_pm": "±",
        "weighted_mean": "Weighted %", "lowest": f"Lowest {tail} %", "lowest_pm": "± lowest", "top": f"Top {tail} %",
        "std": "Std", "cv": "CV", "bars": "Clients, worst first", "megabytes": "MB",
        "gradient_evaluations": "Gradients", "seconds": "Seconds", "clients": "n", "seeds": "Seeds",
    }  # fmt: skip


def formats(columns: Sequence[str]) -> dict[str, str]:
    """printf formats of the numeric columns of ``for_screen``."""
    special = {"cv": "%.3f", "gradient_evaluations": "localized", "clients": "%d", "seeds": "%d"}
    return {name: special.get(name, "%.2f") for name in columns if name not in ("method", "model", "round", "bars")}
