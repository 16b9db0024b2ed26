"""A reader's state: for each story the dials, the run that trains, and the results of earlier runs."""

import time
from dataclasses import dataclass, field
from typing import Any

from app.stories import stories
from app.stories.story import Mark, Place, Run, Story

MAX_MARKS = 40
MAX_WAIT_S = 2.0
TICK_S = 0.25


class Desk:
    """One reader's state of one story. Only ``train`` trains."""

    def __init__(self, story: Story[Any]) -> None:
        self.story = story
        self.place: Place | None = None  # once it is known
        self.run: Run | None = None
        self.is_playing = False
        self._marks: dict[tuple[tuple[str, str], ...], float] = {}
        self._run_place: Place = {}
        self._steps_due = 0
        self._last_tick = time.monotonic()

    @property
    def marks(self) -> list[Mark]:
        """Where earlier runs ended, the latest last."""
        return [Mark(dict(place), value) for place, value in self._marks.items()]

    def turn(self, place: Place) -> None:
        """Move the dials; a run at the new place starts at once."""
        self.place = dict(place)
        self.play()

    def play(self) -> None:
        """Continue, or start over if the run has finished."""
        self.is_playing, self._last_tick = True, time.monotonic()
        if self.run and self.run.is_settled:
            self._put_away(self.run)

    def pause(self) -> None:
        self.is_playing = False

    def step(self) -> None:
        """Train one round when the page is next drawn."""
        self.is_playing, self._steps_due = False, 1

    def reset(self) -> None:
        """Back to untrained models, and an empty figure."""
        self.is_playing, self.run, self._steps_due = False, None, 0
        self._marks.clear()

    def train(self, place: Place) -> Any:
        """The run at ``place`` after the rounds that are due, None before it starts. A new place starts a new run."""
        if self.run and self._run_place != place:
            self._put_away(self.run)
        steps, self._steps_due = self._steps_due, 0
        if steps or self.is_playing:
            if self.run is None:
                self.run, self._run_place = self.story.start(place), dict(place)
            self.run.advance(steps or self._rounds_due(self.run.round))
        return self.run

    def _rounds_due(self, round: int) -> int:
        """Rounds for the time since the last tick; a slow machine skips none at the start."""
        now = time.monotonic()
        passed = min(now - self._last_tick, MAX_WAIT_S)
        self._last_tick = now
        least = max(1, int(self.story.pace(0) * TICK_S))
        return max(least, min(int(passed * self.story.pace(round)), least + round // 3))

    def _put_away(self, run: Run) -> None:
        """Mark where a completed run ended, and clear it for the next one."""
        if run.is_settled:
            key = tuple(self._run_place.items())
            self._marks.pop(key, None)
            self._marks[key] = run.value
            while len(self._marks) > MAX_MARKS:
                del self._marks[next(iter(self._marks))]
        self.run = None


@dataclass
class Reader:
    """The open story, and the desk of every story opened so far."""

    slug: str
    desks: dict[str, Desk] = field(default_factory=dict)

    @property
    def desk(self) -> Desk:
        return self.desks.setdefault(self.slug, Desk(stories()[self.slug]))

    def open(self, slug: str) -> None:
        """Switch to another story and pause the current one."""
        self.desk.pause()
        self.slug = slug
