"""Predict, then reveal: a question above the figures until the run has finished, then the finding and the guess."""

import html
from functools import partial

import streamlit as st

from app.charts.plot import live_traces, palette
from app.state import widgets
from app.stories.desk import Desk
from app.stories.questions import Choice, Estimate, Guess, Question
from app.stories.story import Place, finding_at, scene_at
from app.wording import unbroken

NO_GUESS = ""


def sentence(desk: Desk, place: Place) -> str:
    """The sentence above the figures: the open question, or the finding."""
    question = _question(desk, place)
    return question.text if question and desk.has_open_question(place) else finding_at(desk.story, place)


def prediction(desk: Desk, place: Place) -> None:
    """The answers to choose from while the question is open, then the reader's guess beside the result."""
    question = _question(desk, place)
    if question is None:
        return
    with st.container(horizontal=True, gap="medium", vertical_alignment="center", key="prediction"):
        if desk.has_open_question(place):
            _answers(question, desk, place)
            reveal_button(desk, place)
        else:
            _compared(question, desk.guess_at(place), desk.ended(place))


def reveal_button(desk: Desk, place: Place) -> None:
    shortcut = "S" if palette.is_presenting() else None
    st.button("Show the result", key="reveal", type="tertiary", on_click=desk.reveal, args=(place,), shortcut=shortcut)


def _question(desk: Desk, place: Place) -> Question | None:
    scene = scene_at(desk.story, place)
    return scene.question if scene else None


def _answers(question: Question, desk: Desk, place: Place) -> None:
    """Choosing is optional, and ends when the run begins."""
    draw = _answer_keys if palette.is_presenting() else _answer_widget
    draw(question, desk, place, f"guess_{desk.story.slug}_{desk.scene}")


def _answer_widget(question: Question, desk: Desk, place: Place, name: str) -> None:
    guess, is_late = desk.guess_at(place), desk.has_started(place)
    if isinstance(question, Choice):
        st.pills(
            question.text,
            question.answers,
            label_visibility="collapsed",
            disabled=is_late,
            key=widgets.key(name, guess, partial(desk.guess, place)),
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
            key=widgets.key(name, NO_GUESS if guess is None else f"{guess:g}", partial(_keep, desk, place), stops),
        )


def _keep(desk: Desk, place: Place, stop: str) -> None:
    desk.guess(place, None if stop == NO_GUESS else float(stop))


def _answer_keys(question: Question, desk: Desk, place: Place, name: str) -> None:
    """Buttons with keys of their own: a widget with the focus would take Space and the arrows from the slide."""
    guess, is_late = desk.guess_at(place), desk.has_started(place)
    if isinstance(question, Choice):
        for digit, answer in enumerate(question.answers, 1):
            st.button(
                answer,
                key=f"{name}_{digit}",
                type="primary" if answer == guess else "secondary",
                disabled=is_late,
                on_click=desk.guess,
                args=(place, answer),
                shortcut=str(digit),
            )
        return
    for word, shortcut, by in (("Lower", "Down", -1), ("Higher", "Up", 1)):
        to = moved(question, guess, by)
        st.button(
            word, key=f"{name}_{word}", disabled=is_late, on_click=desk.guess, args=(place, to), shortcut=shortcut
        )
    words = "No guess yet" if guess is None else f"Your guess: {question.say(guess)}"
    st.html(f'<p class="verdict">{html.escape(words)}</p>', width="content")


def moved(question: Estimate, guess: Guess | None, by: int) -> float:
    """The next stop below or above the guess; the middle one at first."""
    stops = list(question.stops)
    at = len(stops) // 2 if guess is None else stops.index(float(guess)) + by
    return stops[min(max(at, 0), len(stops) - 1)]


def _compared(question: Question, guess: Guess | None, ended: float | None) -> None:
    verdict = question.verdict(guess, ended)
    scale = scale_html(question, guess, ended) if isinstance(question, Estimate) else ""
    st.html(f'<p class="verdict">{scale}<span>{html.escape(unbroken(verdict))}</span></p>')


def scale_html(question: Estimate, guess: Guess | None, ended: float | None) -> str:
    """The guess as a diamond, this run as a dot and the shipped mean ± spread as a bar, on the question's scale."""
    low, high = question.stops[0], question.stops[-1]

    def at(value: float) -> float:
        """Percent of the scale."""
        return round(100 * (min(max(value, low), high) - low) / (high - low), 1)

    pm = question.pm or 0.0
    left, right = at(question.mean - pm), at(question.mean + pm)
    marks = [
        f'<i class="band" style="left: {left}%; width: {round(right - left, 1)}%"></i>',
        f'<i class="mean" style="left: {at(question.mean)}%"></i>',
    ]
    if ended is not None:
        marks.append(f'<i class="dot" style="left: {at(ended)}%; background: {live_traces.color()}"></i>')
    if guess is not None:
        marks.append(f'<i class="diamond" style="left: {at(float(guess))}%"></i>')
    label = "Diamond: your guess; dot: this run; bar: the shipped result"
    return f'<span class="scale" role="img" aria-label="{label}">{"".join(marks)}</span>'
