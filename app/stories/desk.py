"""What a reader has on the desk: the run that trains, whether it plays, and where earlier runs ended."""

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from app.stories.lambda_dial import Dial, example

if TYPE_CHECKING:
    from app.stories.mini_run import MiniRun

MAX_ENDS = 12
MAX_WAIT_S = 2.0
LEAST_ROUNDS = 3


class Desk:
    """One reader's state of the story. Nothing trains but in ``train``."""

    def __init__(self) -> None:
        self.dials: tuple[float, Dial] | None = None  # R and lambda, once they are known
        self.run: MiniRun | None = None
        self.is_playing = False
        self.ends: defaultdict[float, list[tuple[float | None, float]]] = defaultdict(list)  # R: (lambda, error)
        self._steps_due = 0
        self._last_tick = time.monotonic()

    def play(self) -> None:
        """Go on, or from the start where the run has nothing more to show."""
        self.is_playing, self._last_tick = True, time.monotonic()
        if self.run and self.run.is_settled:
            self._keep_end(self.run)

    def pause(self) -> None:
        self.is_playing = False

    def step(self) -> None:
        """One round, when the page is drawn next."""
        self.is_playing, self._steps_due = False, 1

    def reset(self) -> None:
        """Back to untrained models, and an empty figure."""
        self.is_playing, self.run, self._steps_due = False, None, 0
        self.ends.clear()

    def train(self, R: float, dial: Dial) -> "MiniRun | None":
        """The run at these dials after the rounds that are due; None before it starts. A new place starts a new run."""
        if self.run and (self.run.R, self.run.dial) != (R, dial):
            self._keep_end(self.run)
        steps, self._steps_due = self._steps_due, 0
        if steps or self.is_playing:
            self.run = self.run or start(R, dial)
            self.run.advance(steps or self._rounds_due(self.run.standing.round))
        return self.run

    def _rounds_due(self, round: int) -> int:
        """Rounds for the time since the last tick: slow where much happens, then faster."""
        now = time.monotonic()
        passed = min(now - self._last_tick, MAX_WAIT_S)
        self._last_tick = now
        due = int(passed * (12 + round / 4))
        return max(LEAST_ROUNDS, min(due, LEAST_ROUNDS + round // 3))  # a slow machine leaves nothing out at the start

    def _keep_end(self, run: "MiniRun") -> None:
        """Leave a mark where a run that has trained ended, and make place for the next one."""
        if run.standing.round:
            self.ends[run.R].append((example().lam_of(run.R, run.dial), run.standing.error))
            del self.ends[run.R][:-MAX_ENDS]
        self.run = None


def start(R: float, dial: Dial) -> "MiniRun":
    """An untrained run. The first one loads the engine, which takes seconds; pages don't wait for it before."""
    from app.stories.mini_run import MiniRun

    return MiniRun(R, dial)
