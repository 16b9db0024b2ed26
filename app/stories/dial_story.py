"""What the stories on attacks, privacy and deadlines share: one dial, rows of methods, and clients beside them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pandas as pd
import streamlit as st

from app.components.moving_figure import Picture
from app.stories import method_rows
from app.stories.asked import Places, stops_up_to
from app.stories.dial_example import load
from app.stories.figures import dial_curve
from app.stories.story import Dial, Mark, Place, Story, reading

if TYPE_CHECKING:
    from app.stories.dial_run import DialRun, DialStep


class DialStory(ABC):
    """Rows of ``methods`` at the left and their clients at the right, trained live at a stop of the ``dial``."""

    slug: str
    dial: ClassVar[str]  # its name in the address
    methods: ClassVar[Sequence[str]]

    @abstractmethod
    def dials(self, place: Place) -> Sequence[Dial]:
        """The one slider."""

    @abstractmethod
    def config(self, place: Place) -> Mapping[str, Any]:
        """The experiment of a stop."""

    @abstractmethod
    def alt(self, stop: str) -> str:
        """The rows in words."""

    @abstractmethod
    def standing(self, stop: str, run: "DialRun | None") -> str:
        """A sentence on the state of the reader's run."""

    @abstractmethod
    def draw_clients(self, stop: str, run: "DialRun | None") -> None:
        """The figure at the right, with its heading."""

    def steps(self, place: Place) -> Iterator["DialStep"]:
        from app.stories.dial_run import steps

        return steps(self.config(place))

    def draw(self, place: Place, run: "DialRun | None", marks: Sequence[Mark]) -> None:
        stop, picture = place[self.dial], self.picture(place, run, marks)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            self.draw_clients(stop, run)
            reading(cast(Story[Any], self), place, picture.now)

    def picture(self, place: Place, run: "DialRun | None" = None, marks: Sequence[Mark] = ()) -> Picture:
        stop = place[self.dial]
        alt, now = self.alt(stop), self.standing(stop, run)
        return method_rows.picture(self.slug, self.methods, stop, run, alt=alt, now=now)

    def table(self, places: Places = None) -> pd.DataFrame:
        return dial_curve.data(load(self.slug), stops_up_to(self.dials({})[0], places))
