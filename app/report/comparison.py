"""The report of a comparison: the finding, the figures of all sections, the numbers and their provenance."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

import pandas as pd

from app.charts.plot import palette
from app.compare import tables
from app.compare.comparability import conflicts
from app.compare.numbers import EVERY_RULE, about, rows_of
from app.compare.remarks import remarks
from app.compare.section import Part
from app.compare.view import View
from app.data import config_fields
from app.report import html
from app.report.document import document
from app.report.origins import origins
from app.state.choice import Choices
from app.wording import capitals, plural


@dataclass(frozen=True)
class Comparison:
    """The input of a report. ``rows`` is the view as pooled, ``parts`` makes the figures of all sections of the page,
    ``choices`` has the choices of the page when the report is made, and ``address`` is the page's without its choices.
    ``absent`` are the sentences on chosen runs without results (``comparability.missing``).
    """

    view: View
    rows: View
    parts: Callable[[View, View, Choices], Iterable[Part]]
    choices: Choices
    address: str
    title: str
    finding: str
    absent: Sequence[str] = ()


def report(comparison: Comparison, now: datetime | None = None) -> str:
    """One HTML file, built on request from the numbers, because the page has drawn only one section."""
    view, rows, choices = comparison.view, comparison.rows, dict(comparison.choices)
    with palette.on_paper():
        parts = list(comparison.parts(view, rows, choices))
    charts = [one for part in parts for one in part.figures]
    number = {id(one): i for i, one in enumerate(charts)}
    body = [
        f"<header>{html.paragraph(capitals(view.setting), 'kicker')}<h1>{html.escape(comparison.title)}</h1>",
        html.paragraph(comparison.finding, "lead"),
        *_source(comparison, choices, now or datetime.now(UTC)),
        "</header>",
        html.items([*conflicts(view.methods), *remarks(view, comparison.absent)], "warnings"),
        *(html.section(part.heading, *(html.figure(one, number[id(one)]) for one in part.figures)) for part in parts),
        html.section("All numbers", *_numbers(rows)),
        html.section("Settings that differ", *_settings(view)),
        html.section("Versions and runs", *_origins(view)),
    ]
    return document(f"Fedscape: {comparison.title}", body, charts)


def link_back(comparison: Comparison, choices: Choices) -> str:
    """The page with its choices; it always names its runs, since the newest experiment changes."""
    is_named = {"runs", "experiment"} & set(choices)
    runs = {} if is_named else {"runs": ",".join(map(str, comparison.view.runs))}
    return f"{comparison.address}?{urlencode({**choices, **runs})}"


def _source(comparison: Comparison, choices: Choices, now: datetime) -> list[str]:
    view, address = comparison.view, link_back(comparison, choices)
    what = f"{plural(len(view.methods), 'method')}, {plural(len(view.runs), 'run')}"
    rule = f"{view.rule}; lowest {view.tail} % and top {view.tail} % of the clients"
    return [
        html.paragraph(f"{what}: {rule}.", "source"),
        f'<p class="source">Exported from Fedscape on {now.day} {now:%B %Y, %H:%M} UTC. Comparison: '
        f"{html.link(address, address)}</p>",
    ]


def _numbers(rows: View) -> list[str]:
    table, _ = rows_of(rows, EVERY_RULE)
    return [html.table(tables.for_print(table, rows.tail)), html.paragraph(about(rows, table), "source")]


def _settings(view: View) -> list[str]:
    table = config_fields.table(view.methods).rename(columns={"field": "Setting"})
    return [html.table(table), html.paragraph(config_fields.about(view.methods), "source"), *_whole(view)]


def _whole(view: View) -> list[str]:
    """Every setting of the first method, so that the report is complete without the app."""
    first = view.methods[0]
    settings = config_fields.flat(first.runs[0].config).items()
    table = pd.DataFrame(
        [(config_fields.title(name, view.methods), config_fields.text(name, value)) for name, value in settings],
        columns=["Setting", first.name],
    )
    return [html.folded(f"All settings of {first.name}", html.table(table))]


def _origins(view: View) -> list[str]:
    rows = [
        (run.id, method.name, run.split, run.seed, run.status, f"{run.round} of {run.rounds}", run.digest)
        for method in view.methods
        for run in method.runs
    ]
    runs = pd.DataFrame(rows, columns=["Run", "Method", "Split", "Seed", "Status", "Rounds", "Digest"])
    return [
        html.table(origins(run for method in view.methods for run in method.runs)),
        html.folded(f"{plural(len(rows), 'run')}, with digests (equal digests mean equal numbers)", html.table(runs)),
    ]
