"""A reader's state: for each story the dials, the run that trains, the guesses, and the results of earlier runs."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from app.stories import shared_run, stories
from app.stories.questions import Guess
from app.stories.shared_steps import Run
from app.stories.story import Key, Mark, Place, Scene, Story, key_of, scene_at

MAX_MARKS = 40
MAX_WAIT_S = 2.0
TICK_S = 0.25


class Desk:
    """One reader's state of one story. Only ``train`` trains.

    After a lost connection, a new run of the page can start while the last one still trains in its own thread: one
    waits for the other.
    """

    def __init__(self, story: Story[Any]) -> None:
        self.story = story
        self.place: Place | None = None  # once it is known
        self.scene = 0  # the latest one
        self.run: Run[Any] | None = None
        self.is_playing = False
        self._guesses: dict[Key, Guess] = {}
        self._marks: dict[Key, float] = {}
        self._revealed: dict[Key, float | None] = {}  # with this run's answer to the scene's question
        self._run_place: Place = {}
        self._steps_due = 0
        self._last_tick = time.monotonic()
        self._is_training = threading.RLock()

    @property
    def marks(self) -> list[Mark]:
        """Where earlier runs ended, the latest last."""
        return [Mark(dict(place), value) for place, value in self._marks.items()]

    def turn(self, place: Place) -> None:
        """Move the dials; a run at the new place starts at once."""
        self.place = dict(place)
        self.play()

    def show(self, scene: Scene) -> None:
        """Move the dials to a scene. A run starts at once unless a question comes first."""
        self.scene = list(self.story.scenes).index(scene)
        self.turn(scene.place)
        if self.has_open_question(scene.place):
            self.pause()

    def has_open_question(self, place: Place) -> bool:
        """Whether a question is open there, so that the results are hidden."""
        scene = scene_at(self.story, place)
        return scene is not None and scene.question is not None and key_of(place) not in self._revealed

    @property
    def has_answered_all(self) -> bool:
        """Whether no question of the story is open."""
        return not any(self.has_open_question(scene.place) for scene in self.story.scenes)

    def guess(self, place: Place, value: Guess | None) -> None:
        """Keep the reader's answer, or none."""
        self._guesses.pop(key_of(place), None)
        if value is not None:
            self._guesses[key_of(place)] = value

    def guess_at(self, place: Place) -> Guess | None:
        return self._guesses.get(key_of(place))

    def reveal(self, place: Place) -> None:
        """Show the results without a run."""
        self._revealed.setdefault(key_of(place), None)

    def ended(self, place: Place) -> float | None:
        """This reader's run's answer to the question there."""
        return self._revealed.get(key_of(place))

    def has_started(self, place: Place) -> bool:
        """Whether a run there is under way, so that it is too late to guess."""
        return self.is_playing or self._steps_due > 0 or (self.run is not None and self._run_place == place)

    def play(self) -> None:
        """Continue, or start over if the run has finished."""
        with self._is_training:
            self.is_playing, self._last_tick = True, time.monotonic()
            if self.run and self.run.is_settled:
                self._put_away(self.run)

    def pause(self) -> None:
        self.is_playing = False

    def step(self) -> None:
        """Train one round when the page is next drawn."""
        self.is_playing, self._steps_due = False, 1

    def reset(self, *, keeps_guesses: bool = False) -> None:
        """Back to untrained models, an empty figure and open questions."""
        with self._is_training:
            self.is_playing, self.run, self._steps_due = False, None, 0
            self._marks.clear()
            self._revealed.clear()
            if not keeps_guesses:
                self._guesses.clear()

    def train(self, place: Place) -> Any:
        """The run at ``place`` after the rounds that are due, None before it starts. A new place starts a new run."""
        with self._is_training:
            if self.run and self._run_place != place:
                self._put_away(self.run)
            if self._steps_due or self.is_playing:
                if self.run is None:
                    self.run, self._run_place = shared_run.start(self.story, place), dict(place)
                self.run.advance(self._steps_due or self._rounds_due(self.run.round))
                self._steps_due = 0  # if the page was stopped while it waited for its turn, the step is still due
                if self.run.is_settled:
                    self._settle(place, self.run)
            return self.run

    def _settle(self, place: Place, run: Run[Any]) -> None:
        scene = scene_at(self.story, place)
        if scene and scene.question:
            self._revealed[key_of(place)] = scene.question.of_run(run)

    def _rounds_due(self, round: int) -> int:
        """How many rounds the time since the last tick allows; a slow machine skips none at the start."""
        now = time.monotonic()
        passed = min(now - self._last_tick, MAX_WAIT_S)
        self._last_tick = now
        least = max(1, int(self.story.pace(0) * TICK_S))
        return max(least, min(int(passed * self.story.pace(round)), least + round // 3))

    def _put_away(self, run: Run[Any]) -> None:
        """Mark where a completed run ended, and clear it for the next one."""
        if run.is_settled:
            key = key_of(self._run_place)
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

    def neighbor(self, by: int) -> tuple[str | None, Scene | None]:
        """One step back or forward from the latest scene: the story if it is another one, and the scene there.

        (None, None) is beyond the first or the last story.
        """
        scenes, at = self.desk.story.scenes, self.desk.scene + by
        if 0 <= at < len(scenes):
            return None, scenes[at]
        order = list(stories())
        to = order.index(self.slug) + by
        return (order[to], None) if 0 <= to < len(order) else (None, None)

    @property
    def next_story(self) -> str | None:
        """The slug of the next story; None after the last."""
        order = list(stories())
        at = order.index(self.slug) + 1
        return order[at] if at < len(order) else None

    def skip(self) -> None:
        """Skip the rest of the story."""
        if self.next_story:
            self.open(self.next_story)

    def move(self, by: int) -> None:
        """One step back or forward."""
        slug, scene = self.neighbor(by)
        if slug:
            self.open(slug)
        elif scene:
            self.desk.show(scene)
