"""Which results of a story may be shown: those of the scenes that the reader has come to.

A figure over a whole dial would otherwise give away the answers to later questions. All results may be shown in the
last scene, at a setting that is no scene's, and once all questions of the story are answered.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from app.stories.story import Dial, Place, Story, scene_at

Places = Sequence[Place] | None
"""Where results may be shown; None is everywhere."""
_are_all_answered = ContextVar("are_all_answered", default=False)


@contextmanager
def all_answered(are_answered: bool) -> Iterator[None]:
    """In this block, the reader has answered all questions of the story, or has not."""
    token = _are_all_answered.set(are_answered)
    try:
        yield
    finally:
        _are_all_answered.reset(token)


def asked(story: Story[Any], place: Place, *, is_open: bool = False) -> Places:
    """The places of the scenes up to that at ``place``, without its own if its question ``is_open``."""
    scenes, now = list(story.scenes), scene_at(story, place)
    if now is None or _are_all_answered.get() or (now == scenes[-1] and not is_open):
        return None
    return [scene.place for scene in scenes[: scenes.index(now) + (not is_open)]]


def stops_up_to(dial: Dial, places: Places) -> tuple[str, ...]:
    """The stops of a dial up to the furthest at one of the ``places``."""
    stops = tuple(dial.stops)
    if places is None:
        return stops
    return stops[: max((stops.index(place[dial.name]) + 1 for place in places), default=0)]
