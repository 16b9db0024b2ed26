"""The stories of the Learn page: one question each, and a small run that trains while the reader watches."""

import importlib
from functools import cache
from importlib.util import find_spec
from typing import Any

from app.stories.story import Story

ORDER = ("one_model", "alone", "lambda_dial", "contexts", "left_behind")
"""The files of the stories, in reading order."""


@cache
def stories() -> dict[str, Story[Any]]:
    """All stories in order, by slug."""
    files = [f"{__name__}.{name}" for name in ORDER]
    found = [importlib.import_module(file).STORY for file in files if find_spec(file)]
    return {story.slug: story for story in found}
