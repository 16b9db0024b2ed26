"""The report of a study: the finding, the final runs, every figure of the page, the choices and the runs."""

from datetime import UTC, datetime
from urllib.parse import urlencode

import pandas as pd
import yaml

from app.charts.plot import palette
from app.data import column_heads
from app.data.column_heads import Heads
from app.report import html
from app.report.document import document
from app.report.origins import origins
from app.state.choice import Choices
from app.study import equal_cost, finals, finding, numbers, progress, protocol, ranks, settings, tuning
from app.study.study import Study, study_entry
from app.wording import kicker, plural


def report(study: Study, choices: Choices, address: str, now: datetime | None = None) -> str:
    """One HTML file that works offline, with the figures for the method, split and parameter chosen on the page."""
    choices, table = dict(choices), numbers.table(study)
    with palette.on_paper():
        parts = [
            ("How much did tuning help?", tuning.figures(study, choices)),
            ("Which methods differ?", ranks.figures(study)),
            ("Which settings were tried, and which were chosen?", settings.figures(study, choices)),
        ]
    charts = [one for _, figures in parts for one in figures]
    number = {id(one): i for i, one in enumerate(charts)}
    found = finding.of(study)
    body = [
        f"<header>{html.paragraph(kicker(study.experiment.config), 'kicker')}<h1>{html.escape(found.title)}</h1>",
        html.paragraph(found.procedure, "lead"),
        html.paragraph(" ".join(found.sentences), "lead"),
        html.paragraph(progress.test_data(study), "source"),
        _source(study, choices, address, now or datetime.now(UTC)),
        "</header>",
        html.section(
            finals.heading(study.final_runs, study.reference),
            html.table(_written(table[[*finals.COLUMNS]], finals.heads(study.reference))),
            html.folded(
                "All columns", html.table(_written(table.drop(columns="algorithm"), finals.heads(study.reference)))
            ),
            html.paragraph(finals.about(study), "source"),
        ),
        *(
            html.section(heading, *(html.figure(one, number[id(one)]) for one in figures))
            for heading, figures in parts
            if figures
        ),
        *_pairs(study, choices),
        *_probabilities(study, choices),
        *_equal_cost(study, choices),
        html.section("The chosen settings", html.table(settings.chosen(study))),
        html.section("How it was done", *_protocol(study)),
        html.section("Runs", html.table(origins(study.runs)), *_runs(study)),
    ]
    return document(f"Fedscape: {found.title}", body, charts)


def _source(study: Study, choices: Choices, address: str, now: datetime) -> str:
    back = f"{address}?{urlencode({**choices, 'experiment': study.experiment.id})}"
    return (
        f'<p class="source">Exported from Fedscape on {now.day} {now:%B %Y, %H:%M} UTC. Study: '
        f"{html.link(back, back)}</p>"
    )


def _written(rows: pd.DataFrame, heads: Heads) -> pd.DataFrame:
    """Every number with the decimals of its column, under its title."""
    known = {name: column_heads.head_of(name, heads) for name in rows.dropna(axis=1, how="all")}
    return pd.DataFrame(
        {head.title: [column_heads.text(value, head) for value in rows[name]] for name, head in known.items()}
    )


def _pairs(study: Study, choices: Choices) -> list[str]:
    family = ranks.family_control(study).made_in(choices)
    rows = ranks.pairs(study, family)
    if rows.empty:
        return []
    shown = html.table(_written(rows, ranks.HEADS))
    return [html.section("Pairs of methods", shown, html.paragraph(ranks.about(study, rows, family), "source"))]


def _probabilities(study: Study, choices: Choices) -> list[str]:
    rope = ranks.ROPES.made_in(choices)
    rows = ranks.posterior_within(study, rope)
    if rows.empty:
        return []
    shown = html.table(rows)
    return [html.section("Better, equal or worse", shown, html.paragraph(ranks.about_posterior(study, rope), "source"))]


def _equal_cost(study: Study, choices: Choices) -> list[str]:
    cost = equal_cost.cost_of(equal_cost.AXIS.made_in(choices))
    rows = equal_cost.table(study, cost)
    if rows.empty:
        return []
    shown = html.table(equal_cost.as_shown(rows, cost))
    return [html.section("Accuracy at equal cost", shown, html.paragraph(equal_cost.about(study, cost), "source"))]


def _protocol(study: Study) -> list[str]:
    config = yaml.safe_dump(study.experiment.config, sort_keys=False, allow_unicode=True, width=100)
    return [
        html.table(protocol.steps(study)),
        "<h3>What was tuned</h3>",
        html.table(protocol.spaces(study)),
        html.folded("The configuration, to run the study again", html.preformatted(config)),
    ]


def _runs(study: Study) -> list[str]:
    rows = [
        [run.id, study.names[own["entry"]].name, own["role"], run.split, own["trial"], run.seed, run.status, run.digest]
        for run in study.runs
        for own in [study_entry(run)]
    ]
    columns = ["Run", "Method", "Role", "Split", "Trial", "Seed", "Status", "Digest"]
    summary = f"{plural(len(rows), 'run')}, with digests (equal digests mean equal numbers)"
    return [html.folded(summary, html.table(pd.DataFrame(rows, columns=columns)))]
