"""A story of the Learn page: a question, a dial, a run that trains, and its figures.

A story is one file of this folder with a ``STORY`` in it. The page draws everything around it: the row of stories, the
scenes, the question and the finding above the figures, the dials, Play, Step, Reset, exercises, notes, the handout and
the link to Set up. ``steps`` trains, once the reader presses Play and one step at a time, for all readers at the place.

A scene with a question hides the shipped results until its run has finished (``moving_figure.RESULT`` marks them), and
figures over a whole dial leave out what later scenes ask (``asked``). A story may omit ``finding``, ``picture``,
``motif``, ``curve``, ``exercises``, ``source`` and ``ending``; functions in this file supply defaults.
"""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pandas as pd
import streamlit as st

from app.charts.plot import palette
from app.components import terms
from app.components.moving_figure import Picture, are_results_hidden
from app.stories.questions import Exercise, Question
from app.stories.shared_steps import Run, StepT
from app.wording import unbroken

Place = Mapping[str, str]
"""The stop of each dial of a story: dial name -> stop, as in the address."""
Key = tuple[tuple[str, str], ...]
"""A place that can be looked up."""


@dataclass(frozen=True)
class Dial:
    """A slider over a few stops. A story should have one."""

    name: str  # in the address
    label: str
    stops: Mapping[str, str]  # in order: value in the address -> label on the dial
    default: str = ""  # where the first scene says nothing of it; the first stop if empty
    help: str = ""  # what its symbol means


@dataclass(frozen=True)
class Scene:
    """A step of a story: the dials' stops, and the texts for them."""

    title: str
    place: Place
    text: str  # beside the figures: the explanation
    finding: str = ""  # above the figures: one sentence
    question: Question | None = field(default=None, compare=False)  # above the figures until the finding is shown
    notes: str = ""  # for the speaker
    beside: str = ""  # after the text on the page: on figures that are only there


class Mark(NamedTuple):
    """The result of an earlier run."""

    place: Place
    value: float


class Story(Protocol[StepT]):
    """One question of the Learn page."""

    order: int  # among the stories
    slug: str  # in the address
    short: str  # in the row of stories
    kicker: str
    title: str
    lead: str

    @property
    def scenes(self) -> Sequence[Scene]: ...

    def dials(self, place: Place) -> Sequence[Dial]:
        """The sliders, given the others' stops in ``place``, which may be incomplete or invalid."""
        ...

    def steps(self, place: Place) -> Iterator[StepT]:
        """A generator of the states of a run: untrained first, then after every step of training. Loads the engine."""
        ...

    def pace(self, round: int) -> float:
        """Rounds per second at a round: slow where much happens."""
        ...

    def draw(self, place: Place, run: Run[StepT] | None, marks: Sequence[Mark]) -> None:
        """The figures and the text beside them, at every tick; ``run`` is None before it starts."""
        ...

    def config(self, place: Place) -> Mapping[str, Any]:
        """The experiment that the reader sees, for Set up: the run's method is one of its methods."""
        ...

    def setup_label(self, place: Place) -> str:
        """What the link to Set up opens."""
        ...

    def table(self, places: Sequence[Place] | None = None) -> pd.DataFrame:
        """The shipped numbers: all, or those that figures show once the reader has been asked at these ``places``."""
        ...

    @property
    def caption(self) -> str:
        """Which numbers are trained live and which are shipped, and the command that computed those."""
        ...


def place_of(story: Story[Any], given: Place) -> dict[str, str]:
    """``given`` as valid stops of the dials; missing or unknown ones are those of the first scene."""
    place, start = dict(given), start_of(story)
    for dial in story.dials(given):
        if place.get(dial.name) not in dial.stops:
            place[dial.name] = start[dial.name]
    return {dial.name: place[dial.name] for dial in story.dials(place)}


def key_of(place: Place) -> Key:
    return tuple(sorted(place.items()))


def start_of(story: Story[Any]) -> dict[str, str]:
    """Where a story opens: at its first scene."""
    first = next(iter(story.scenes), None)
    place = dict(first.place) if first else {}
    return {dial.name: place.get(dial.name) or dial.default or next(iter(dial.stops)) for dial in story.dials(place)}


def scene_at(story: Story[Any], place: Place) -> Scene | None:
    return next((scene for scene in story.scenes if dict(scene.place) == dict(place)), None)


def finding_at(story: Story[Any], place: Place) -> str:
    """The sentence above the figures: the scene's, or the story's ``finding(place)``; empty without one."""
    scene = scene_at(story, place)
    find: Callable[[Place], str] = getattr(story, "finding", lambda _: "")
    return scene.finding if scene else find(place)


def picture_of(story: Story[Any], place: Place, run: Any = None, marks: Sequence[Mark] = ()) -> Picture | None:
    """The story's ``picture(place, run, marks)``: its one figure on a slide and in the handout; None without one."""
    draw: Callable[..., Picture | None] = getattr(story, "picture", lambda *_: None)
    return draw(place, run, marks)


def motif_of(story: Story[Any], place: Place) -> Picture | None:
    """The story's ``motif(place)``: the data, beside its figure on a slide and in the handout; None without one."""
    draw: Callable[[Place], Picture | None] = getattr(story, "motif", lambda _: None)
    return draw(place)


def curve_of(story: Story[Any]) -> Picture | None:
    """The story's ``curve``: the whole dial in a figure, which its exercises are about; None without one."""
    found: Picture | None = getattr(story, "curve", None)
    return found


def ending_of(story: Story[Any]) -> str:
    """The story's ``ending``: what the reader has seen, in a sentence; empty without one."""
    found: str = getattr(story, "ending", "")
    return found


def source_of(story: Story[Any]) -> str:
    """The story's ``source``: the caption of a handout, where there are no runs; the ``caption`` without one."""
    source: str = getattr(story, "source", story.caption)
    return source


def exercises_of(story: Story[Any]) -> Sequence[Exercise]:
    """The story's ``exercises``, none without them."""
    found: Sequence[Exercise] = getattr(story, "exercises", ())
    return found


def reading(story: Story[Any], place: Place, now: str, finding: str = "") -> None:
    """The text beside the figures: the state of the run, and the scene's text or the finding.

    While the results are hidden, and on a slide, it is the state alone.
    """
    scene = scene_at(story, place)
    is_short = are_results_hidden() or palette.is_presenting()
    text = "" if is_short else f"{scene.text} {scene.beside}".strip() if scene else finding
    parts = [f"<b>{html.escape(unbroken(now))}</b>", *([terms.marked(text, "reading")] if text else [])]
    st.html(f'<p class="reading">{"<br>".join(parts)}</p>')
