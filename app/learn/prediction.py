"""Predict, then reveal: a question above the figures until the run has finished, then the finding and the guess."""

import html
from functools import partial

import streamlit as st

from app.charts.plot import live_traces
from app.state import url_state
from app.stories.desk import Desk
from app.stories.questions import Choice, Estimate, Guess, Question
from app.stories.story import Place, finding_at, scene_at

NO_GUESS = ""
WIDE, HIGH, EDGE = 260, 30, 12  # pixels of the scale that shows a guess beside the result


def sentence(desk: Desk, place: Place) -> str:
    """What stands above the figures: the open question, or the finding."""
    question = _question(desk, place)
    return question.text if question and desk.asks(place) else finding_at(desk.story, place)


def prediction(desk: Desk, place: Place) -> None:
    """The answers to choose from while the question is open, then the reader's guess beside the result."""
    question = _question(desk, place)
    if question is None:
        return
    with st.container(horizontal=True, gap="medium", vertical_alignment="center", key="prediction"):
        if desk.asks(place):
            _answers(question, desk, place)
            st.button("Show the result", key="reveal", type="tertiary", on_click=desk.reveal, args=(place,))
        elif guess := desk.guess_at(place):
            _compared(question, guess, desk.ended(place))


def _question(desk: Desk, place: Place) -> Question | None:
    scene = scene_at(desk.story, place)
    return scene.question if scene else None


def _answers(question: Question, desk: Desk, place: Place) -> None:
    """Choosing is optional, and ends when the run begins."""
    guess, is_late = desk.guess_at(place), desk.has_begun(place)
    name = f"guess_{desk.story.slug}_{desk.scene}"
    if isinstance(question, Choice):
        st.pills(
            question.text,
            question.answers,
            label_visibility="collapsed",
            disabled=is_late,
            key=url_state.key(name, guess, partial(desk.guess, place)),
        )
        return
    stops = {NO_GUESS: "your guess"} | {f"{stop:g}": question.say(stop) for stop in question.stops}
    with st.container(width=420):
        st.select_slider(
            question.text,
            list(stops),
            format_func=stops.__getitem__,
            label_visibility="collapsed",
            disabled=is_late,
            key=url_state.key(name, NO_GUESS if guess is None else f"{guess:g}", partial(_keep, desk, place), stops),
        )


def _keep(desk: Desk, place: Place, stop: str) -> None:
    desk.guess(place, None if stop == NO_GUESS else float(stop))


def _compared(question: Question, guess: Guess, ended: float | None) -> None:
    verdict = question.verdict(guess, ended)
    scale = scale_svg(question, float(guess), ended) if isinstance(question, Estimate) else ""
    st.html(f'<p class="verdict">{scale}<span>{html.escape(verdict)}</span></p>')


def scale_svg(question: Estimate, guess: float, ended: float | None) -> str:
    """The guess as a diamond, this run as a dot and the shipped mean ± spread as a bar, on the question's scale."""
    low, high = question.stops[0], question.stops[-1]

    def at(value: float) -> float:
        return round(EDGE + (WIDE - 2 * EDGE) * (min(max(value, low), high) - low) / (high - low), 1)

    middle, pm, x = HIGH / 2, question.pm or 0.0, at(guess)
    run = "" if ended is None else f'<circle cx="{at(ended)}" cy="{middle}" r="6" fill="{live_traces.color()}"/>'
    return (
        f'<svg width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}" role="img" '
        'aria-label="Diamond: your guess; dot: this run; bar: the shipped result">'
        f'<path d="M{at(low)} {middle}H{at(high)}" stroke="var(--line)" stroke-width="2"/>'
        f'<path d="M{at(question.mean - pm)} {middle}H{at(question.mean + pm)}" stroke="var(--accent)" '
        'stroke-width="8" opacity="0.35"/>'
        f'<path d="M{at(question.mean)} {middle - 9}v18" stroke="var(--accent)" stroke-width="3"/>{run}'
        f'<path d="M{x} {middle - 8}l8 8l-8 8l-8 -8z" fill="none" stroke="var(--ink)" stroke-width="2"/></svg>'
    )
