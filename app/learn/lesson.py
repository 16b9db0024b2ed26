"""Material for lecturers: exercises, speaker notes and the handout."""

import html
from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.learn import handout
from app.stories.desk import Desk
from app.stories.questions import Exercise
from app.stories.story import Place, Scene, exercises_of, scene_at


def exercises(desk: Desk) -> None:
    """The exercises, each with a collapsed answer."""
    found = exercises_of(desk.story)
    if found:
        st.header("Exercises", anchor=False)
        st.html(exercises_html(found))


def exercises_html(found: Sequence[Exercise]) -> str:
    items = (
        f"<li>{html.escape(one.task)}<details><summary>Answer</summary>{html.escape(one.answer)}</details></li>"
        for one in found
    )
    return f'<ol class="exercises">{"".join(items)}</ol>'


def teaching(desk: Desk, place: Place) -> None:
    """The handout and the speaker notes of all scenes, behind a button."""
    opened = st.popover("Notes · Handout", type="tertiary", key="teaching", on_change="rerun")
    if not opened.open:
        return
    story, now = desk.story, scene_at(desk.story, place)
    with opened:
        st.download_button(
            "Download handout (HTML)",
            partial(handout.handout, story),
            f"handout-{story.slug}.html",
            "text/html",
            key="handout",
            on_click="ignore",
            help="Questions, figures to sketch in, exercises and answers, in one file to print",
        )
        st.subheader("Speaker notes", anchor=False)
        st.html(notes_html(story.scenes, now))


def notes_html(scenes: Sequence[Scene], now: Scene | None) -> str:
    """The notes of all scenes, with the current one marked."""
    marks = ((scene, ' class="current"' if scene == now else "") for scene in scenes if scene.notes)
    paragraphs = [
        f"<p{mark}><b>{html.escape(scene.title)}.</b> {html.escape(scene.notes)}</p>" for scene, mark in marks
    ]
    return "".join(paragraphs) or "<p>This story has no speaker notes.</p>"
