"""Learn: questions, each with a dial and a run that trains live in the page."""

import html
from pathlib import Path
from typing import Any

import streamlit as st

from app import learn
from app.charts.plot import palette
from app.components import page
from app.components.queue_position import queue_position
from app.components.top_of_section import top_of_section
from app.learn.answers import answers_plot
from app.learn.classroom import Classroom, classroom
from app.learn.controls import controls
from app.learn.ending import ending
from app.learn.lesson import teaching
from app.learn.prediction import prediction, sentence
from app.learn.room_bar import room_bar
from app.learn.slide import slide
from app.learn.stage import stage
from app.learn.stepper import stepper
from app.state import links, url_state, widgets
from app.stories import stories
from app.stories.asked import all_answered, asked
from app.stories.desk import Reader
from app.stories.shared_run import warm_up
from app.stories.story import Place, Story, place_of, scene_at, start_of
from app.wording import unbroken
from engine.core.errors import MAX_SHOWN, cut

STYLE = Path(learn.__file__).with_name("learn.css")


def render() -> None:
    reader, room = arrived(), classroom()
    room.attend(reader)
    place = follow(reader)
    room.report(reader, place)
    page.titled(reader.desk.story.short, "learn")
    st.html(STYLE)
    if palette.is_presenting():
        slide(reader, place, room)
    else:
        lesson(reader, place, room)
    with queue_position():
        warm_up(reader.desk.story, place)


def lesson(reader: Reader, place: Place, room: Classroom) -> None:
    """The page of a story: question, scenes, finding, dials, figures, and material for readers and lecturers."""
    desk = reader.desk
    story_row(reader)
    room_bar(room, reader)
    page.header(desk.story.kicker, desk.story.title, desk.story.lead)
    stepper(reader, place)
    if words := sentence(desk, place):
        st.html(f'<p class="finding">{html.escape(unbroken(words))}</p>')
    prediction(desk, place)
    if shown := room.shown_answers(reader, place):
        answers_plot(*shown)
    controls(desk, place, keeps_guesses=bool(room.code))  # they are stored there
    stage(desk, place)
    below(reader, place)
    ending(reader, place)
    with st.container(key="story_top"):
        top_of_section(reader.slug)


def arrived() -> Reader:
    """Return the reader. On arrival, open the story and place that the address names, else the last ones."""
    reader: Reader = st.session_state.setdefault("learn", Reader(next(iter(stories()))))
    if url_state.has_arrived():
        classroom().arrive(url_state.get("room"))
        is_history = url_state.is_history()
        slug = url_state.value("story", list(stories()), next(iter(stories())) if is_history else reader.slug)
        if slug != reader.slug:
            reader.open(slug)
        if (wanted := url_state.get("story")) and wanted not in stories():
            classroom().tell(f"There is no story “{cut(wanted, MAX_SHOWN)}”; choose one above.")
        chosen = {name: value for name, value in url_state.address().items() if name in names_of(reader.desk.story)}
        if chosen or is_history or reader.desk.place is None:
            reader.desk.place = place_of(reader.desk.story, chosen)
        url_state.take_arrival()  # last: if this run is stopped before that, the next one arrives again
    return reader


def follow(reader: Reader) -> Place:
    """Return the positions of the dials, and mirror them in the address."""
    desk = reader.desk
    place = desk.place = place_of(desk.story, desk.place or {})
    if scene := scene_at(desk.story, place):
        desk.scene = list(desk.story.scenes).index(scene)
    defaults = start_of(desk.story) | {"story": next(iter(stories()))}
    chosen = {name: value for name, value in {"story": reader.slug, **place}.items() if value != defaults[name]}
    ours = {"story"}.union(*(names_of(story) for story in stories().values()))
    url_state.choose(**{**dict.fromkeys(ours), **chosen})
    return place


def names_of(story: Story[Any]) -> set[str]:
    return {dial.name for dial in story.dials({})}


def story_row(reader: Reader) -> None:
    """All stories by number, the open one selected."""
    titles = {slug: f"{number} · {story.short}" for number, (slug, story) in enumerate(stories().items(), 1)}
    with st.container(key="stories"):
        st.segmented_control(
            "Story",
            list(titles),
            format_func=titles.__getitem__,
            label_visibility="collapsed",
            required=True,
            key=widgets.key("story", reader.slug, reader.open, titles),
        )


def below(reader: Reader, place: Place) -> None:
    """The link to Set up, notes and handout, the numbers and their source."""
    story = reader.desk.story
    with st.container(horizontal=True, vertical_alignment="center", key="below"):
        link = links.setup_link(story.config(place))
        st.html(f'<a href="{html.escape(link)}">Open in Set up: {html.escape(story.setup_label(place))}</a>')
        with all_answered(reader.desk.has_answered_all):
            places = asked(story, place, is_open=reader.desk.has_open_question(place))
        page.table_button(
            story.table(places),
            key=f"{story.slug}_numbers",
            name=f"learn-{story.slug}",
            caption=story.caption,
            scope="[class*=st-key-figure_]",
        )
        teaching(reader.desk, place)
    st.caption(story.caption)


with url_state.page("learn"):
    render()
