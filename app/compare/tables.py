"""The comparison as a table: for the screen, for a spreadsheet, for a paper."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from app.data import table_files
from app.data.comparison import SUMMARIES, per_method, ranking
from app.data.costs import COST_NAMES, SIMULATED
from app.data.latex import booktabs, escape, number
from app.data.table_files import fixed
from app.data.thinning import evenly
from app.wording import MISSING, MODELS, WHEN, capital, decimals_pm
from engine.export.tables import without_formulas

NUMBERS = (*SUMMARIES, *COST_NAMES)
INTERNAL = ("samples", "tail_samples", "may_be_best", "counted")  # columns that no file has
MAX_BARS = 60  # in a narrow cell of the table
RANKED = ("mean", "weighted_mean", "lowest", "top")
OF_TAILS = ("lowest", "lowest_pm", "top")
PERCENT = ("mean", "weighted_mean", "lowest", "top", "std")  # cv is a ratio; it stays one


def data(runs: pd.DataFrame, is_ranked: bool = True, counted: str = "seeds") -> pd.DataFrame:
    """[model, when, run, method, ..., <summaries>, <costs>] -> one row per method, model and rule, with ± over seeds.

    Values are fractions; ``<name>_pm`` is the sample deviation over seeds, NaN for one seed. ``may_be_best`` names the
    numbers of a row that may be the best of their column and rule (``comparison.ranking``), none if the rows are not
    ranked. ``counted`` is what the column ``seeds`` counts (``View.spread``). Simulated seconds are a column if some
    runs record them.
    """
    parts, numbers = [], (*NUMBERS, *([SIMULATED] if SIMULATED in runs else []))
    for (model, when), own in runs.groupby(["model", "when"], sort=False):
        rows = per_method(own, numbers)
        best = _may_be_best(rows["method"], own) if is_ranked else [()] * len(rows)
        parts.append(rows.assign(model=model, when=when, may_be_best=best))
    with_pm = [name for column in numbers for name in (column, f"{column}_pm")]
    columns = ["method", "algorithm", "model", "when", *with_pm, "clients", "tail", "seeds", *INTERNAL]
    if not parts:
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True).assign(counted=counted)[columns]


def _may_be_best(methods: pd.Series, runs: pd.DataFrame) -> list[tuple[str, ...]]:
    """For each method the columns in which it may be the best, without those in which every method may be."""
    tied = {name: ranking(runs, name).tied for name in RANKED}
    decided = {name: best for name, best in tied.items() if len(best) < len(methods)}
    return [tuple(name for name, best in decided.items() if method in best) for method in methods]


def for_screen(table: pd.DataFrame, clients: pd.DataFrame) -> pd.DataFrame:
    """Percent where it is read as percent, and the clients' accuracies, worst first, as at most MAX_BARS bars.

    ``clients`` [method, model, when, accuracy]. The last column is ``seeds``, ``splits`` or ``pooled runs``.
    """
    keys = ["method", "model", "when"]
    rounds = table["when"].str.replace("_.*", "", regex=True)
    shown = pd.DataFrame({"method": table["method"], "model": table["model"].map(MODELS), "round": rounds})
    for name in SUMMARIES:
        shown[name] = table[name] * (100 if name in PERCENT else 1)
        if name in ("mean", "lowest"):
            shown[f"{name}_pm"] = 100 * table[f"{name}_pm"]
    bars = {row: _bars(100 * own["accuracy"].to_numpy()) for row, own in clients.groupby(keys)}
    shown["bars"] = [bars.get(row, []) for row in table[keys].itertuples(index=False, name=None)]
    for name in (*COST_NAMES, *([SIMULATED] if SIMULATED in table else []), "clients", "seeds"):
        shown[name] = table[name].round() if name == "gradient_evaluations" else table[name]
    return shown.rename(columns={"seeds": _counted(table)})


def _bars(percent: np.ndarray) -> list[float]:
    return [float(value) for value in np.sort(percent)[evenly(len(percent), MAX_BARS)]]


def for_download(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of a chart, without the columns that only the page uses."""
    return rows.drop(columns=[*INTERNAL, "other_samples", "splits", "unit"], errors="ignore")


def to_csv(table: pd.DataFrame) -> str:
    """Every number as a fraction, with the rule that it was chosen by."""
    named = table.assign(when=table["when"].map(lambda when: WHEN.get(when, when))).drop(columns=[*INTERNAL])
    return without_formulas(named).to_csv(index=False, float_format="%.12g")


def to_latex(table: pd.DataFrame, tail: int, caption: str) -> str:
    """Rows of one model and rule as a booktabs table, in percent; in bold the means and tails that may be best."""
    rows = [
        [escape(row["method"]), *cells, *map(escape, _others(row)), str(row["seeds"])]
        for row, cells in _printed(table, _latex_cell, r"\pm")
    ]
    titles = _print_titles(tail, table)
    return booktabs(list(map(escape, titles)), rows, _alignment(titles), escape(caption))


def to_markdown(table: pd.DataFrame, tail: int, caption: str) -> str:
    """The rows and numbers of ``to_latex`` as a Markdown table, in bold where LaTeX has bold."""
    titles = _print_titles(tail, table)
    return table_files.pipes(titles, _markdown_rows(table), _alignment(titles), caption)


def for_print(table: pd.DataFrame, tail: int) -> pd.DataFrame:
    """Every rule, in words: percent and ± in one cell."""
    rows = [
        [
            row["method"],
            MODELS[row["model"]],
            WHEN.get(row["when"], row["when"]),
            *cells,
            *_others(row),
            fixed(row["seconds"], 1),
            f"{row['clients']}",
            f"{row['seeds']}",
        ]
        for row, cells in _printed(table, _text_cell)
    ]
    method, *numbers, seeds = _print_titles(tail, table)
    return pd.DataFrame(rows, columns=[method, "Model", "Round", *numbers, "Seconds", "n", seeds])


def _print_titles(tail: int, table: pd.DataFrame) -> list[str]:
    summaries = ["Mean", "Weighted mean", f"Lowest {tail} %", f"Top {tail} %", "Std", "CV"]
    return ["Method", *summaries, "MB", *(["Simulated s"] if SIMULATED in table else []), capital(_counted(table))]


def _counted(table: pd.DataFrame) -> str:
    """``seeds``, ``splits`` or ``pooled runs``: what the column ``seeds`` counts."""
    return "seeds" if table.empty else str(table["counted"].iloc[0])


def _alignment(titles: Sequence[str]) -> str:
    return "l" + "r" * (len(titles) - 1)


def _others(row: dict[Hashable, Any]) -> list[str]:
    """CV, megabytes, and simulated seconds in a table that has them."""
    simulated = [fixed(row[SIMULATED], 1)] if SIMULATED in row else []
    return [fixed(row["cv"], 3), fixed(row["megabytes"], 2), *simulated]


def _markdown_rows(table: pd.DataFrame) -> list[list[str]]:
    return [
        [table_files.unmarked(row["method"]), *cells, *_others(row), str(row["seeds"])]
        for row, cells in _printed(table, _markdown_cell)
    ]


def bold_note(table: pd.DataFrame) -> str:
    """A note on the meaning of bold numbers, if there are any."""
    over = f"over {_counted(table)}, not corrected for the number of methods"
    note = f" Bold: may be the best by 95 % intervals {over}."
    return note if table["may_be_best"].map(len).any() else ""


def _printed(
    table: pd.DataFrame, cell: Callable[[str, bool], str], pm: str = "±"
) -> Iterator[tuple[dict[Hashable, Any], list[str]]]:
    """Each row, and its percentages as ``cell(number, may be the best)`` writes them."""
    for row in table.to_dict("records"):
        printed = {name: _number(row, name, pm) for name in PERCENT}
        yield row, [cell(text, name in row["may_be_best"] and text != MISSING) for name, text in printed.items()]


def _number(row: dict[Hashable, Any], name: str, pm: str) -> str:
    """``97.41 ± 0.12``, with no more decimals than the test samples support."""
    value, spread = row[name], row[f"{name}_pm"]
    digits = decimals_pm(spread, row["tail_samples" if name in OF_TAILS else "samples"])
    mean = fixed(100 * value, digits)
    return mean if pd.isna(spread) else f"{mean} {pm} {100 * spread:.{digits}f}"


def _latex_cell(printed: str, is_bold: bool) -> str:
    return rf"$\mathbf{{{printed}}}$" if is_bold else number(printed)


def _text_cell(number: str, _: bool) -> str:
    return number


def _markdown_cell(number: str, is_bold: bool) -> str:
    return f"**{number}**" if is_bold else number


def column_titles(tail: int) -> dict[str, str]:
    """The titles of the columns of ``for_screen``."""
    return {
        "method": "Method",
        "model": "Model",
        "round": "Round",
        "mean": "Mean %",
        "mean_pm": "±",
        "weighted_mean": "Weighted %",
        "lowest": f"Lowest {tail} %",
        "lowest_pm": "± lowest",
        "top": f"Top {tail} %",
        "std": "Std",
        "cv": "CV",
        "bars": "Clients, worst first",
        "megabytes": "MB",
        "gradient_evaluations": "Gradients",
        "seconds": "Seconds",
        "simulated_s": "Simulated s",
        "clients": "n",
        "seeds": "Seeds",
        "splits": "Splits",
        "pooled runs": "Pooled runs",
    }


def formats(columns: Sequence[str], table: pd.DataFrame) -> dict[str, str]:
    """printf formats of the numeric columns of ``for_screen(table)``."""
    counts = dict.fromkeys(("clients", "seeds", "splits", "pooled runs"), "%d")
    special = {"cv": "%.3f", "gradient_evaluations": "localized", **counts}
    digits = {name: _decimals(table, name) for name in (*PERCENT, "mean_pm", "lowest_pm")}
    return {
        name: special.get(name, f"%.{digits.get(name, 2)}f")
        for name in columns
        if name not in ("method", "model", "round", "bars")
    }


def _decimals(table: pd.DataFrame, name: str) -> int:
    """The decimals of a column, by its median spread over seeds and the row with the fewest test samples."""
    samples = table["tail_samples" if name in OF_TAILS else "samples"].min()
    return decimals_pm(table[f"{name.removesuffix('_pm')}_pm"].median(), samples)
