"""The scenes of a story as steps: where the reader is, and one step back or forward."""

from functools import partial

import streamlit as st

from app.learn.status import status
from app.state import widgets
from app.stories import stories
from app.stories.desk import Desk, Reader
from app.stories.story import Place, scene_at

STEPS = "abcdefghij"


def stepper(reader: Reader, place: Place) -> None:
    """All scenes, with the current one selected, between Previous and Next."""
    desk = reader.desk
    scenes = dict(zip(STEPS, desk.story.scenes, strict=False))
    now = scene_at(desk.story, place)
    titles = {letter: f"{letter} · {scene.title}" for letter, scene in scenes.items()}
    at = next((letter for letter, scene in scenes.items() if scene == now), None)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="scenes"):
        status(progress(desk, place), key="progress")
        step_button(reader, -1)
        st.segmented_control(
            "Scene",
            list(titles),
            format_func=titles.__getitem__,
            label_visibility="collapsed",
            key=widgets.key("scene", at, partial(choose, desk), titles),
        )
        step_button(reader, +1)


def choose(desk: Desk, letter: str | None) -> None:
    """Show a scene; another press on it shows it again."""
    desk.show(desk.story.scenes[desk.scene if letter is None else STEPS.index(letter)])


def step_button(reader: Reader, by: int, shortcut: str | None = None) -> None:
    """One step back or forward: the next scene, or after the last one the next story."""
    slug, scene = reader.neighbor(by)
    word = "Previous" if by < 0 else "Next"
    if slug:
        number = list(stories()).index(slug) + 1
        words = f"{word} story: {number} · {stories()[slug].short}"
    else:
        words = f"{word} scene: {scene.title}" if scene else f"{word} scene"
    arrow = f"← {word}" if by < 0 else f"{word} →"
    st.button(
        word if shortcut else arrow,  # Streamlit shows the key beside it
        key=word.lower(),
        type="tertiary" if by < 0 else "secondary",
        help=None if shortcut else words,
        disabled=slug is None and scene is None,
        on_click=reader.move,
        args=(by,),
        shortcut=shortcut,
    )


def progress(desk: Desk, place: Place) -> str:
    """``Scene 2 of 3``, or ``Your own setting`` if the dials match no scene."""
    scenes = list(desk.story.scenes)
    now = scene_at(desk.story, place)
    return f"Scene {scenes.index(now) + 1} of {len(scenes)}" if now else "Your own setting"
