"""A story as one HTML file to print: questions with empty figures to sketch in, answers, exercises and their answers.

The exercises come after the answers, as on the page: they are about the results of the whole story.
"""

from dataclasses import replace
from html import escape
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.components.moving_figure import Picture, hidden_results
from app.components.shown import Shown
from app.report import html
from app.report.document import document
from app.stories.figures.legend import without_live
from app.stories.questions import Choice, Question
from app.stories.story import Scene, Story, curve_of, exercises_of, motif_of, picture_of, source_of

LINES = 3  # to write an answer on
STYLE = """<style>
.blank { border-bottom: 1px solid var(--muted); height: 1.9rem; }
.answers { list-style: "☐  "; }
@media print { .new-page { break-before: page; } body { font-size: 11pt; } main { padding: 0; } }
</style>"""


def handout(story: Story[Any]) -> str:
    """Figures appear twice: without results next to the questions, and with them among the answers.

    Questions with the same empty figure share it. The story's curve is next to the exercises.
    """
    pictures: list[Shown] = []
    asked = [_scene(story, number, scene, pictures) for number, scene in enumerate(story.scenes, 1)]
    tasks = [f"<li>{escape(one.task)}{_blank()}</li>" for one in exercises_of(story)]
    answers = [_answer(story, number, scene, pictures) for number, scene in enumerate(story.scenes, 1)]
    solved = [f"<li>{escape(one.answer)}</li>" for one in exercises_of(story)]
    body = [
        STYLE,
        f"<header>{html.paragraph(story.kicker, 'kicker')}<h1>{escape(story.title)}</h1>",
        html.paragraph(story.lead, "lead"),
        "</header>",
        *asked,
        _page("Answers", *answers),
        _page("Exercises", _curve(story, pictures), f"<ol>{''.join(tasks)}</ol>") if tasks else "",
        _page("Answers to the exercises", f"<ol>{''.join(solved)}</ol>") if solved else "",
        html.section("Where the numbers come from", html.paragraph(source_of(story).replace("`", ""), "source")),
    ]
    return document(f"Fedscape: {story.title}", body, pictures)


def _page(title: str, *parts: str) -> str:
    return f'<div class="new-page">{html.section(title, *parts)}</div>'


def _scene(story: Story[Any], number: int, scene: Scene, pictures: list[Shown]) -> str:
    asked = [html.paragraph(scene.question.text), _answers(scene.question)] if scene.question else []
    figures = [_motif(story, scene, pictures), _figure(story, scene, pictures, with_results=False)]
    return html.section(f"{number}. {scene.title}", *asked, *figures)


def _answer(story: Story[Any], number: int, scene: Scene, pictures: list[Shown]) -> str:
    heading = f"<h3>{number}. {escape(scene.title)}</h3>"
    right = f"Answer: {scene.question.right}" if isinstance(scene.question, Choice) else ""
    figure = _figure(story, scene, pictures, with_results=True)
    return heading + html.paragraph(right) + html.paragraph(scene.finding) + html.paragraph(scene.text) + figure


def _answers(question: Question) -> str:
    return html.items(question.answers, "answers") if isinstance(question, Choice) else _blank(1)


def _blank(lines: int = LINES) -> str:
    return '<div class="blank"></div>' * lines


def _figure(story: Story[Any], scene: Scene, pictures: list[Shown], *, with_results: bool) -> str:
    """The scene's figure before a run, drawn by the script of the file."""
    with hidden_results(not with_results), palette.on_paper():
        picture = picture_of(story, scene.place)
        if picture is None or not (with_results or scene.question):
            return ""
        plot = replace(picture, figure=without_live(picture.figure)).plot()
    if not with_results:
        plot.data = [trace for trace in plot.data if trace.visible is not False]
        if any(plot == shown.figure for shown in pictures):
            return ""
    alt = picture.alt if with_results else "The same figure without its results"
    return _drawn(story, picture, plot, alt, pictures)


def _motif(story: Story[Any], scene: Scene, pictures: list[Shown]) -> str:
    """The data, next to the question."""
    with palette.on_paper():
        motif = motif_of(story, scene.place)
        return _drawn(story, motif, motif.plot(), motif.alt, pictures) if motif else ""


def _curve(story: Story[Any], pictures: list[Shown]) -> str:
    """The whole dial with its results."""
    with palette.on_paper():
        curve = curve_of(story)
        if curve is None:
            return ""
        return _drawn(story, curve, replace(curve, figure=without_live(curve.figure)).plot(), curve.alt, pictures)


def _drawn(story: Story[Any], picture: Picture, plot: go.Figure, alt: str, pictures: list[Shown]) -> str:
    key = f"{story.slug}_{len(pictures)}"
    shown = Shown(plot, pd.DataFrame(), alt, picture.title or None, picture.note or None, key, key)
    pictures.append(shown)
    return html.drawn(shown, len(pictures) - 1)
