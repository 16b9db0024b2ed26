"""The dials of a story, and the buttons of its run."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from app.state import widgets
from app.stories.desk import Desk
from app.stories.story import Dial, Place


def controls(desk: Desk, place: Place, *, keeps_guesses: bool) -> None:
    """The dials, then Play, Step and Reset, in one row."""
    shares = [*widths(desk.story.dials(place)), 3]
    with st.container(key="controls"):
        *sliders, buttons = st.columns(shares, vertical_alignment="bottom", gap="medium")
    for column, dial in zip(sliders, desk.story.dials(place), strict=True):
        with column:
            slider(desk, place, dial)
    with buttons, st.container(horizontal=True, gap="small"):
        play_button(desk)
        st.button("Step", key="step", on_click=desk.step, help="Advance this run by one step")
        st.button(
            "Reset",
            key="reset",
            on_click=partial(desk.reset, keeps_guesses=keeps_guesses),
            help="Reset to untrained models and open questions",
        )


def slider(desk: Desk, place: Place, dial: Dial) -> None:
    st.select_slider(
        dial.label,
        list(dial.stops),
        format_func=dial.stops.__getitem__,
        help=dial.help or None,
        key=widgets.key(dial.name, place[dial.name], partial(turn_one, desk, dial.name), dial.stops),
    )


def play_button(desk: Desk, shortcut: str | None = None, before_play: Callable[[], None] | None = None) -> None:
    def play() -> None:
        if before_play:
            before_play()
        desk.play()

    words, act = ("Pause", desk.pause) if desk.is_playing else ("Play", play)
    st.button(words, key="play", type="primary", on_click=act, shortcut=shortcut)


def widths(dials: Sequence[Dial]) -> list[int]:
    """Shares of the row: more stops, more room."""
    total = sum(len(dial.stops) for dial in dials)
    return [max(3, round(8 * len(dial.stops) / total)) for dial in dials]


def turn_one(desk: Desk, name: str, value: str) -> None:
    desk.turn({**(desk.place or {}), name: value})
