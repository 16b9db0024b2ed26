"""Learn: five questions, each with a dial and a run that trains live in the page."""

import html
from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.charts.plot import palette
from app.components import page
from app.state import links, url_state
from app.stories import stories
from app.stories.desk import TICK_S, Desk, Reader
from app.stories.story import Dial, Place, Scene, Story, place_of, scene_at

CSS = """<style>
.st-key-stage [data-testid="stElementContainer"] { opacity: 1 !important; transition: none !important; }
.reading { line-height: 1.55; margin: 0; max-width: 34rem; }
.reading b { font-variant-numeric: tabular-nums; }
</style>"""
STEPS = "abcdefgh"


def render() -> None:
    reader = arrived()
    desk = reader.desk
    place = follow(reader)
    st.html(CSS)
    page.titled(desk.story.short, "learn")
    story_row(reader)
    heading(desk.story)
    scenes(desk, place)
    controls(desk, place)
    with st.container(key="stage"):
        st.fragment(stage, run_every=TICK_S if desk.is_playing else None)(desk, place)
    below(reader, place)
    warm_up(reader.slug, place)


def arrived() -> Reader:
    """On arrival the reader finds what the address names, else what was left."""
    reader: Reader = st.session_state.setdefault("learn", Reader(next(iter(stories()))))
    if url_state.take_arrival():
        is_history = url_state.is_history()
        slug = url_state.value("story", list(stories()), next(iter(stories())) if is_history else reader.slug)
        if slug != reader.slug:
            reader.open(slug)
        chosen = {name: value for name, value in url_state.address().items() if name in names_of(reader.desk.story)}
        if chosen or is_history or reader.desk.place is None:
            reader.desk.place = place_of(reader.desk.story, chosen)
    return reader


def follow(reader: Reader) -> Place:
    """Where the dials stand, mirrored in the address."""
    desk = reader.desk
    place = desk.place = place_of(desk.story, desk.place or {})
    defaults = {dial.name: dial.default for dial in desk.story.dials(place)} | {"story": next(iter(stories()))}
    chosen = {name: value for name, value in {"story": reader.slug, **place}.items() if value != defaults[name]}
    ours = {"story"}.union(*(names_of(story) for story in stories().values()))
    url_state.choose(**{**dict.fromkeys(ours), **chosen})
    return place


def names_of(story: Story[Any]) -> set[str]:
    return {dial.name for dial in story.dials({})}


def story_row(reader: Reader) -> None:
    """All stories by number, the open one selected."""
    titles = {slug: f"{number} · {story.short}" for number, (slug, story) in enumerate(stories().items(), 1)}
    st.segmented_control(
        "Story",
        list(titles),
        format_func=titles.__getitem__,
        label_visibility="collapsed",
        required=True,
        key=url_state.key("story", reader.slug, reader.open, titles),
    )


def heading(story: Story[Any]) -> None:
    if palette.is_presenting():
        st.title(story.title, anchor=False)
    else:
        page.header(story.kicker, story.title, story.lead)


def scenes(desk: Desk, place: Place) -> None:
    """The steps of the story; each sets the dials and plays."""
    now: Scene | None = scene_at(desk.story, place)
    with st.container(horizontal=True, gap="small", key="scenes"):
        for letter, scene in zip(STEPS, desk.story.scenes, strict=False):
            st.button(
                f"{letter} · {scene.title}",
                key=f"scene_{letter}",
                type="secondary" if scene == now else "tertiary",
                on_click=desk.turn,
                args=(scene.place,),
            )


def controls(desk: Desk, place: Place) -> None:
    """The dials and the three buttons."""
    dials = desk.story.dials(place)
    *sliders, buttons = st.columns([*widths(dials), 3], vertical_alignment="bottom", gap="medium")
    for slider, dial in zip(sliders, dials, strict=True):
        at = place[dial.name]
        turn = partial(turn_one, desk, dial.name)
        slider.select_slider(
            dial.label,
            list(dial.stops),
            format_func=dial.stops.__getitem__,
            key=url_state.key(dial.name, at, turn, dial.stops),
        )
    with buttons, st.container(horizontal=True, gap="small"):
        play_or_pause = ("Pause", desk.pause) if desk.is_playing else ("Play", desk.play)
        st.button(play_or_pause[0], key="play", type="primary", on_click=play_or_pause[1])
        st.button("Step", key="step", on_click=desk.step, help="Train one round")
        st.button("Reset", key="reset", on_click=desk.reset, help="Reset to untrained models")


def widths(dials: Sequence[Dial]) -> list[int]:
    """Shares of the row: more stops, more room."""
    total = sum(len(dial.stops) for dial in dials)
    return [max(3, round(8 * len(dial.stops) / total)) for dial in dials]


def turn_one(desk: Desk, name: str, value: str) -> None:
    desk.turn({**(desk.place or {}), name: value})


def stage(desk: Desk, place: Place) -> None:
    """The part that updates: a slice of training, then the story's figures and text."""
    run = desk.train(place)
    desk.story.draw(place, run, desk.marks)
    if run and run.is_settled and desk.is_playing:
        desk.pause()
        st.rerun()


def below(reader: Reader, place: Place) -> None:
    """The link to Set up, the numbers and their source, and the previous and next story."""
    story = reader.desk.story
    if not palette.is_presenting():
        with st.container(horizontal=True, vertical_alignment="center"):
            link = links.setup_link(story.config(place))
            st.html(f'<a href="{html.escape(link)}">Open in Set up: {html.escape(story.setup_label(place))}</a>')
            page.table_button(
                story.table(),
                key=f"{story.slug}_numbers",
                name=f"learn-{story.slug}",
                caption=story.caption,
                scope="[class*=st-key-figure_]",
            )
        st.caption(story.caption)
    order = list(stories())
    at = order.index(reader.slug)
    with st.container(horizontal=True, horizontal_alignment="distribute", key="neighbours"):
        for name, arrow, other in (("previous", "← {}", at - 1), ("next", "{} →", at + 1)):
            if 0 <= other < len(order):
                words = arrow.format(f"{other + 1} · {stories()[order[other]].short}")
                st.button(words, key=name, type="tertiary", on_click=reader.open, args=(order[other],))


@st.cache_resource(show_spinner=False)
def warm_up(slug: str, _place: Place) -> None:
    """Load the engine in advance, so that Play starts at once."""
    stories()[slug].start(_place)


with url_state.page("learn"):
    render()
