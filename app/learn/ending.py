"""The end of a story: what the reader has seen, and where to go on."""

import html

import streamlit as st

from app.data.preset_catalog import known
from app.learn.lesson import exercises
from app.state import links
from app.stories import stories
from app.stories.desk import Reader
from app.stories.story import Place, ending_of, scene_at

PRESET = "digits-first"  # to train oneself after the last story


def ending(reader: Reader, place: Place) -> None:
    """A line below the last scene once its question is answered, with the next story or, after the last one, Set up.

    Then also the exercises, which would give answers away before.
    """
    desk = reader.desk
    is_over = scene_at(desk.story, place) == desk.story.scenes[-1] and not desk.has_open_question(place)
    if is_over:
        _where_next(reader)
    if is_over or desk.has_answered_all:
        exercises(desk)


def _where_next(reader: Reader) -> None:
    words, to = ending_of(reader.desk.story), reader.next_story
    if not words:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="ending"):
        if to:
            st.html(f"<span>{html.escape(words)}</span>", width="content")
            number = list(stories()).index(to) + 1
            st.button(f"Next story: {number} · {stories()[to].title}", key="next_story", on_click=reader.skip)
        else:
            st.html(f"<span>{html.escape(words)} {own_training()}</span>")


def own_training() -> str:
    """A link that fills Set up with a preset."""
    preset = known()[PRESET]
    (config,) = preset.configs("quick")
    link = html.escape(links.setup_link(config))
    return f'Next, train it yourself: <a href="{link}">{html.escape(preset.title)}</a>.'
