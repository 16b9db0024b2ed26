"""A table as a file: CSV for a spreadsheet, LaTeX for a paper, Markdown for a note.

CSV keeps every number as it is. In print numbers have four digits that count, and a column ``x_pm`` stands as ± behind
the number it belongs to, the column ``x``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import pandas as pd

from app.wording import MISSING, capital


@dataclass(frozen=True)
class Format:
    """What a table can be saved as; ``write(table, caption)`` gives the text of the file."""

    title: str
    ending: str
    mime: str
    write: Callable[[pd.DataFrame, str], str]


def to_csv(table: pd.DataFrame, caption: str = "") -> str:
    """The caption would be a row too many."""
    return table.to_csv(index=False)


def to_latex(table: pd.DataFrame, caption: str) -> str:
    """A booktabs table; names are escaped, numbers are set in math."""
    rows = [[_latex(cell) for cell in row] for row in _rows(table)]
    return booktabs([escape(title) for title in _titles(table)], rows, _alignment(table), escape(caption))


def to_markdown(table: pd.DataFrame, caption: str) -> str:
    """A table of pipes with its caption below; nothing in it is read as markup."""
    rows = [[unmarked(_text(cell)) for cell in row] for row in _rows(table)]
    return pipes(_titles(table), rows, _alignment(table), caption)


FORMATS = (
    Format("CSV", "csv", "text/csv", to_csv),
    Format("LaTeX", "tex", "text/x-tex", to_latex),
    Format("Markdown", "md", "text/markdown", to_markdown),
)


def booktabs(titles: Sequence[str], rows: Sequence[Sequence[str]], alignment: str, caption: str) -> str:
    """Everything is LaTeX already. Needs ``\\usepackage{booktabs}``, which its first line says."""
    body = [r"    " + " & ".join(cells) + r" \\" for cells in rows]
    return "\n".join([
        r"% \usepackage{booktabs}", r"\begin{table}", r"  \centering", rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{{alignment}}}", r"    \toprule", "    " + " & ".join(titles) + r" \\", r"    \midrule",
        *body, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", "",
    ])  # fmt: skip


def pipes(titles: Sequence[str], rows: Sequence[Sequence[str]], alignment: str, caption: str) -> str:
    """Cells are Markdown already, titles and caption are not."""
    ruler = ["---:" if side == "r" else ":---" for side in alignment]
    lines = [f"| {' | '.join(cells)} |" for cells in ([unmarked(title) for title in titles], ruler, *rows)]
    return "\n".join([*lines, *(["", unmarked(caption)] if caption else []), ""])


def unmarked(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return "".join(rf"\{c}" if c in r"\|`*_<>[]#~$" else c for c in " ".join(text.split()))


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    special |= {c: rf"\{c}" for c in "&%$#_{}"}
    special |= {"−": "$-$", "–": "--", "→": r"$\rightarrow$", "≤": r"$\leq$", "≥": r"$\geq$", "★": r"$\star$"}
    greek = {"λ": "lambda", "μ": "mu", "η": "eta", "α": "alpha", "β": "beta", "ρ": "rho", "γ": "gamma", "δ": "delta"}
    special |= {letter: rf"$\{name}$" for letter, name in greek.items()}
    return "".join(special.get(c, c) for c in text)


@dataclass(frozen=True)
class _Number:
    value: str
    spread: str = ""


def _titles(table: pd.DataFrame) -> list[str]:
    return [_title(name) for name in _shown(table)]


def _shown(table: pd.DataFrame) -> list[Any]:
    """Columns that get one of their own: a ± stands with its number."""
    names = set(table.columns)
    return [c for c in table.columns if not (str(c).endswith("_pm") and str(c).removesuffix("_pm") in names)]


def _title(name: Any) -> str:
    """``lowest_pm`` is a column's name, ``Lowest 5 %`` a title."""
    return capital(str(name).replace("_", " ").strip())


def _alignment(table: pd.DataFrame) -> str:
    return "".join("r" if pd.api.types.is_numeric_dtype(table[name]) else "l" for name in _shown(table))


def _rows(table: pd.DataFrame) -> Iterator[list[_Number | str]]:
    shown = _shown(table)
    for row in table.to_dict("records"):
        yield [_cell(row[name], row.get(f"{name}_pm")) for name in shown]


def _cell(value: Any, spread: Any) -> _Number | str:
    """Numbers are never text: a minus of theirs is a minus in print."""
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    has_spread = isinstance(spread, Real) and math.isfinite(spread)
    return _Number(_digits(value), _digits(spread) if has_spread else "")


def _digits(value: Any) -> str:
    return str(value) if isinstance(value, Integral) else f"{value:.4g}"


def _latex(cell: _Number | str) -> str:
    if isinstance(cell, str):
        return escape(cell)
    value, spread = (_with_exponent(text) for text in (cell.value, cell.spread))
    return f"${value} \\pm {spread}$" if spread else f"${value}$"


def _with_exponent(text: str) -> str:
    """``1.2e-05`` as LaTeX sets it."""
    mantissa, e, exponent = text.partition("e")
    infinite = mantissa.replace("inf", r"\infty")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if e else infinite


def _text(cell: _Number | str) -> str:
    if isinstance(cell, str):
        return cell
    text = f"{cell.value} ± {cell.spread}" if cell.spread else cell.value
    return text.replace("-", "−") if "e" not in text else text
