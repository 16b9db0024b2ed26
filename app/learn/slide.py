"""Presentation of a story: one sentence, one chart, and a bar with the keys; without navigation and status."""

import html
from pathlib import Path

import streamlit as st

from app.learn.answers import answers_plot
from app.learn.classroom import Classroom, classroom
from app.learn.controls import play_button, slider
from app.learn.prediction import prediction, sentence
from app.learn.room_bar import code_slide, slide_bar
from app.learn.stage import stage
from app.learn.status import status
from app.learn.stepper import progress, step_button
from app.state import url_state
from app.stories import stories
from app.stories.desk import Reader
from app.stories.story import Place
from app.wording import capitals, plain, unbroken

STYLE = Path(__file__).with_name("slide.css")


def slide(reader: Reader, place: Place, room: Classroom) -> None:
    """Left and Right move between scenes, N opens the next story, Space plays, S shows the result, Esc leaves.

    For the lecturer of a room, A shows the answers of the class instead of the figure, until Play hides them again, and
    J shows the code instead of the slide, until the lecturer moves on.
    """
    desk = reader.desk
    st.html(STYLE)
    slide_bar(room, reader)
    if room.shows_code and room.room:
        with st.container(key="slide_code"):
            code_slide(room.room)
    else:
        content(reader, place, room)
    with st.container(horizontal=True, gap="medium", vertical_alignment="center", key="slide_bar"):
        step_button(reader, -1, "Left")
        play_button(desk, "Space", room.clear_slide)
        step_button(reader, +1, "Right")
        status(progress(desk, place), key="progress")
        for dial in desk.story.dials(place):
            slider(desk, place, dial)
        skip_button(reader)
        st.button("Exit", key="exit", type="tertiary", on_click=leave, shortcut="Esc", help="Leave Presentation")


def content(reader: Reader, place: Place, room: Classroom) -> None:
    """The sentence, the question, and the figure or the answers of the class."""
    desk = reader.desk
    with st.container(key="slide_head"):
        st.html(f'<p class="kicker">{html.escape(capitals(desk.story.short))}</p>')
        st.title(plain(unbroken(sentence(desk, place) or desk.story.title)), anchor=False)
    with st.container(key="slide_prediction"):
        prediction(desk, place)
    if not desk.is_playing and (shown := room.shown_answers(reader, place)):
        with st.container(key="slide_answers"):
            answers_plot(*shown)
    else:
        stage(desk, place)


def skip_button(reader: Reader) -> None:
    to = reader.next_story
    help = f"Skip the rest of this story: {stories()[to].title}" if to else None
    st.button(
        "Next story", key="skip", type="tertiary", disabled=to is None, on_click=reader.skip, shortcut="N", help=help
    )


def leave() -> None:
    classroom().shows_code = False
    url_state.choose(presenting=None)
    st.session_state["presenting"] = False
