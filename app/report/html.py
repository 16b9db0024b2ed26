"""The parts of a report as HTML; every text is escaped here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from app.charts.plot import figure_text
from app.components.shown import Shown
from app.data import column_heads
from app.wording import MISSING

MAX_ROWS = 200  # of the numbers behind one figure


def paragraph(text: str, style: str = "") -> str:
    return f"<p{_class(style)}>{escape(text)}</p>" if text else ""


def items(sentences: Iterable[str], style: str = "") -> str:
    rows = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<ul{_class(style)}>{rows}</ul>" if rows else ""


def section(heading: str, *parts: str) -> str:
    """A section, without a heading if it is empty."""
    head = f"<h2>{escape(heading)}</h2>" if heading else ""
    return f"<section>{head}{''.join(parts)}</section>"


def table(rows: pd.DataFrame) -> str:
    """Numbers are right-aligned; missing values are dashes."""
    numeric = [pd.api.types.is_numeric_dtype(rows[name]) for name in rows.columns]
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in rows.columns)
    body = "".join(
        "<tr>" + "".join(_cell(value, right) for value, right in zip(row, numeric, strict=True)) + "</tr>"
        for row in rows.itertuples(index=False, name=None)
    )
    return f'<div class="scrolled"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def figure(shown: Shown, number: int) -> str:
    """The element of a figure that the script draws, its texts, and its numbers, folded."""
    left_out = len(shown.table) - MAX_ROWS
    rest = paragraph(f"{left_out} more rows are in the CSV of the page.") if left_out > 0 else ""
    numbers = folded("Numbers", table(column_heads.read(shown.table.head(MAX_ROWS), shown.heads)) + rest)
    return drawn(shown, number, numbers)


def drawn(shown: Shown, number: int, below: str = "") -> str:
    """The element of a figure that the script draws, and its texts."""
    title = f"<h3>{escape(shown.title)}</h3>" if shown.title else ""
    caption = f"<figcaption>{escape(shown.caption)}</figcaption>" if shown.caption else ""
    plot = f'<div class="plot" id="figure-{number}" role="img" aria-label="{escape(shown.alt)}"></div>'
    return f"<figure>{title}{plot}{caption}{below}</figure>"


def folded(summary: str, content: str) -> str:
    """Folded content."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def link(address: str, text: str) -> str:
    """Links web addresses only; others are shown as text."""
    is_web = address.startswith(("http://", "https://"))
    return f'<a href="{escape(address)}">{escape(text)}</a>' if is_web else escape(text)


def data(name: str, value: Any) -> str:
    """A value for the script; no text in it can end the element."""
    return f'<script type="application/json" id="{name}">{_inert(json.dumps(value))}</script>'


def figures_data(charts: Sequence[Shown], pairs: Mapping[str, str]) -> str:
    """The figures in the light theme, and the dark version of each of their colors."""
    specs = [json.loads(figure_text.without_links(one.figure).to_json()) for one in charts]
    return data("figures", {"figures": specs, "pairs": list(pairs.items())})


def _inert(text: str) -> str:
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _cell(value: Any, right: bool) -> str:
    if isinstance(value, float):
        text = MISSING if pd.isna(value) else f"{value:.6g}"
    else:
        text = MISSING if value is None else str(value)
    return f"<td{_class('number' if right else '')}>{escape(text)}</td>"


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
