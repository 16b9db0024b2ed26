"""A table as a file: CSV for a spreadsheet, LaTeX for a paper, Markdown for notes.

CSV keeps every number and name unchanged. In print a column has its title and unit (``column_heads``), and a column
``x_pm`` is printed as ± after its number, the column ``x``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import pandas as pd

from app.data import latex
from app.data.column_heads import Head, Heads, head_of, read_columns, text
from app.wording import MISSING
from engine.export.tables import without_formulas


@dataclass(frozen=True)
class Format:
    """A file format; ``write(table, caption, heads)`` returns the text of the file."""

    title: str
    ending: str
    mime: str
    write: Callable[[pd.DataFrame, str, Heads], str]


def to_csv(table: pd.DataFrame, caption: str = "", heads: Heads | None = None) -> str:
    """A CSV file with the original column names, without the caption."""
    return without_formulas(table).to_csv(index=False)


def to_latex(table: pd.DataFrame, caption: str, heads: Heads | None = None) -> str:
    """A booktabs table; names are escaped, numbers are set in math."""
    rows = [[_latex(cell) for cell in row] for row in _rows(table, heads or {})]
    titles = [latex.escape(title) for title in _titles(table, heads or {})]
    return latex.booktabs(titles, rows, _alignment(table), latex.escape(caption))


def to_markdown(table: pd.DataFrame, caption: str, heads: Heads | None = None) -> str:
    """A table of pipes with its caption below; all text is escaped."""
    rows = [[unmarked(_text(cell)) for cell in row] for row in _rows(table, heads or {})]
    return pipes(_titles(table, heads or {}), rows, _alignment(table), caption)


FORMATS = (
    Format("CSV", "csv", "text/csv", to_csv),
    Format("LaTeX", "tex", "text/x-tex", to_latex),
    Format("Markdown", "md", "text/markdown", to_markdown),
)


def pipes(titles: Sequence[str], rows: Sequence[Sequence[str]], alignment: str, caption: str) -> str:
    """Cells are already Markdown, titles and caption are not."""
    ruler = ["---:" if side == "r" else ":---" for side in alignment]
    lines = [f"| {' | '.join(cells)} |" for cells in ([unmarked(title) for title in titles], ruler, *rows)]
    return "\n".join([*lines, *(["", unmarked(caption)] if caption else []), ""])


def unmarked(text: str) -> str:
    """Text that Markdown shows literally, in one line."""
    return "".join(rf"\{c}" if c in r"\|`*_<>[]#~$" else c for c in " ".join(text.split()))


def fixed(value: float, digits: int) -> str:
    """``12.30``; MISSING for NaN."""
    return MISSING if pd.isna(value) else f"{value:.{digits}f}"


@dataclass(frozen=True)
class _Number:
    value: str
    spread: str = ""


def _titles(table: pd.DataFrame, heads: Heads) -> list[str]:
    return [head_of(name, heads).title for name in read_columns(table)]


def _alignment(table: pd.DataFrame) -> str:
    kinds = (table[name].dtype for name in read_columns(table))
    is_number = (pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in kinds)
    return "".join("r" if right else "l" for right in is_number)


def _rows(table: pd.DataFrame, heads: Heads) -> Iterator[list[_Number | str]]:
    shown = {name: head_of(name, heads) for name in read_columns(table)}
    for row in table.rename(columns=str).to_dict("records"):
        yield [_cell(row[name], row.get(f"{name}_pm"), head) for name, head in shown.items()]


def _cell(value: Any, spread: Any, head: Head) -> _Number | str:
    """Numbers are not treated as text, so that their minus is printed as one."""
    printed = text(value, head)
    if isinstance(value, bool) or not isinstance(value, Real) or printed == MISSING:
        return printed
    around = text(spread, head)
    return _Number(printed, around if around not in (MISSING, "inf") else "")


def _latex(cell: _Number | str) -> str:
    return latex.escape(cell) if isinstance(cell, str) else latex.number(cell.value, cell.spread)


def _text(cell: _Number | str) -> str:
    if isinstance(cell, str):
        return cell
    shown = f"{cell.value} ± {cell.spread}" if cell.spread else cell.value
    return shown.replace("-", "−") if "e" not in shown else shown
