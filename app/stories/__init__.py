"""The stories of the Learn page: one question each, and a small run that trains while the reader watches."""

from functools import cache
from typing import Any

from app.discovery import declared
from app.stories.story import Story


@cache
def stories() -> dict[str, Story[Any]]:
    """All stories in order, by slug."""
    return {story.slug: story for story in declared(__name__, "STORY").values()}
