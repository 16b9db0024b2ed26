"""What a story of the Learn page is: a question, a dial, a run that trains, and what the reader sees of it.

A story is one file of this folder with a ``STORY`` in it, named in ``app.stories.ORDER``. The page draws everything
around it: the row of stories, the dials, Play, Step, Reset, the link to Set up. A story's file must not load the
engine (nothing is trained before the reader asks); ``start`` does.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import pandas as pd
import streamlit as st

Place = Mapping[str, str]
"""Where the dials of a story stand: by the name of each, what the address says of it."""


@dataclass(frozen=True)
class Dial:
    """A slider over a few stops. A story should have one."""

    name: str  # in the address
    label: str
    stops: Mapping[str, str]  # in order: what stands in the address, and what stands at the dial
    default: str


@dataclass(frozen=True)
class Scene:
    """A step of a story: where the dials stand, and what to see there."""

    title: str
    place: Place
    text: str


class Mark(NamedTuple):
    """Where an earlier run of the reader's ended."""

    place: Place
    value: float


class Run(Protocol):
    """A run of the engine that stands still between two ticks of the page."""

    @property
    def round(self) -> int: ...

    @property
    def value(self) -> float:
        """The one number that a mark keeps of the run."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to see."""
        ...

    def advance(self, rounds: int) -> None:
        """Train some rounds, at most to the end."""
        ...


RunT = TypeVar("RunT")


class Story(Protocol[RunT]):
    """One question of the Learn page."""

    slug: str  # in the address
    short: str  # in the row of stories
    kicker: str
    title: str
    lead: str

    @property
    def scenes(self) -> Sequence[Scene]: ...

    def dials(self, place: Place) -> Sequence[Dial]:
        """The sliders where others stand at ``place``, which may lack any of them or say nonsense."""
        ...

    def start(self, place: Place) -> RunT:
        """An untrained run. Loads the engine."""
        ...

    def pace(self, round: int) -> float:
        """Rounds a second at a round: slow where much happens."""
        ...

    def draw(self, place: Place, run: RunT | None, marks: Sequence[Mark]) -> None:
        """The figures and the text beside them, at every tick; ``run`` is None before it starts."""
        ...

    def config(self, place: Place) -> Mapping[str, Any]:
        """The experiment that the reader sees, for Set up: the run's method is one of its methods."""
        ...

    def setup_label(self, place: Place) -> str:
        """What the link to Set up opens."""
        ...

    def table(self) -> pd.DataFrame:
        """The shipped numbers."""
        ...

    @property
    def caption(self) -> str:
        """Which of the numbers are trained here and which are shipped, and by what command those were made."""
        ...


def place_of(story: Story[Any], said: Place) -> dict[str, str]:
    """``said`` as a place where the dials can stand: what is missing or unknown is the default."""
    place = dict(said)
    for dial in story.dials(said):
        if place.get(dial.name) not in dial.stops:
            place[dial.name] = dial.default
    return {dial.name: place[dial.name] for dial in story.dials(place)}


def scene_at(story: Story[Any], place: Place) -> Scene | None:
    return next((scene for scene in story.scenes if dict(scene.place) == dict(place)), None)


def reading(story: Story[Any], place: Place, now: str, finding: str) -> None:
    """The text beside the figures: where the run is, and what that means; of a scene its own words."""
    scene = scene_at(story, place)
    text = scene.text if scene else finding
    st.html(f'<p class="reading"><b>{html.escape(now)}</b><br>{html.escape(text)}</p>')
