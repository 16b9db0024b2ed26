"""Runs of stories: readers at the same dial position share one training."""

from functools import partial
from typing import Any

from app.data.lru import Lru
from app.stories.shared_steps import Run, SharedSteps, StepT
from app.stories.story import Key, Place, Story, key_of

KEPT = 60  # trainings
_trainings: Lru[tuple[str, Key], SharedSteps[Any]] = Lru(KEPT)
_warm: Lru[str, bool] = Lru(KEPT)


def start(story: Story[StepT], place: Place) -> Run[StepT]:
    """A run at its untrained step. Loads the engine."""
    steps = partial(story.steps, dict(place))
    return Run(_trainings.get_or_put((story.slug, key_of(place)), lambda: SharedSteps(steps)))


def warm_up(story: Story[Any], place: Place) -> None:
    """Load what a story needs, once per story, so that Play starts at once."""
    if _warm.get(story.slug):
        return
    _warm.put(story.slug, True)
    try:
        start(story, place)
    except BaseException:
        _warm.put(story.slug, False)
        raise
