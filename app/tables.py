"""The comparison as a table: for the screen, for a spreadsheet, for a paper."""

from collections.abc import Sequence

import pandas as pd

from app.charts.cost import COST_NAMES
from app.comparison import SUMMARIES, per_method
from app.wording import MODELS, WHEN

NUMBERS = (*SUMMARIES, *COST_NAMES)
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
    """Percent where it is read as percent, and every client's accuracy, worst first, as bars.

    ``clients`` [method, model, when, accuracy].
    """
    keys = ["method", "model", "when"]
    shown = pd.DataFrame({"method": table["method"], "model": table["model"].map(MODELS), "round": table["when"]})
    for name in SUMMARIES:
        shown[name] = table[name] * (100 if name in PERCENT else 1)
        if name in ("mean", "lowest"):
            shown[f"{name}_pm"] = 100 * table[f"{name}_pm"]
    bars = {row: sorted(100 * own["accuracy"]) for row, own in clients.groupby(keys)}
    shown["bars"] = [bars.get(row, []) for row in table[keys].itertuples(index=False, name=None)]
    for name in (*COST_NAMES, "clients", "seeds"):
        shown[name] = table[name].round() if name == "gradient_evaluations" else table[name]
    return shown


def to_csv(table: pd.DataFrame) -> str:
    """Every number, as fractions, with the rule each was taken by."""
    named = table.assign(when=table["when"].map(lambda when: WHEN.get(when, when)))
    return named.to_csv(index=False, float_format="%.6g")


def to_latex(table: pd.DataFrame, tail: int, caption: str) -> str:
    """Rows of one model and rule as a booktabs table, in percent; the best mean, weighted mean, tails in bold."""
    titles = ("Method", "Mean", "Weighted mean", rf"Lowest {tail}\,\%", rf"Top {tail}\,\%", "Std", "CV", "MB", "Seeds")
    best = {name: table[name].max() for name in ("mean", "weighted_mean", "lowest", "top")}
    rows = []
    for row in table.to_dict("records"):
        cells = [_cell(row[n], row[f"{n}_pm"], row[n] == best.get(n)) for n in PERCENT]
        rows.append([escape(row["method"]), *cells, f"{row['cv']:.3f}", f"{row['megabytes']:.2f}", str(row["seeds"])])
    body = "\n".join("    " + " & ".join(cells) + r" \\" for cells in rows)
    return "\n".join([
        r"\begin{table}", r"  \centering", rf"  \caption{{{escape(caption)}}}", r"  \begin{tabular}{l" + "r" * 8 + "}",
        r"    \toprule", "    " + " & ".join(titles) + r" \\", r"    \midrule", body, r"    \bottomrule",
        r"  \end{tabular}", r"\end{table}", "",
    ])  # fmt: skip


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    special |= {c: rf"\{c}" for c in "&%$#_{}"}
    greek = {"λ": "lambda", "μ": "mu", "η": "eta", "α": "alpha", "β": "beta", "ρ": "rho", "γ": "gamma", "δ": "delta"}
    special |= {letter: rf"$\{name}$" for letter, name in greek.items()}
    return "".join(special.get(c, c) for c in text)


def _cell(value: float, spread: float, is_best: bool) -> str:
    number = f"{100 * value:.2f}"
    text = number if pd.isna(spread) else rf"{number} \pm {100 * spread:.2f}"
    return rf"$\mathbf{{{text}}}$" if is_best else f"${text}$"


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
