"""Finds runs that differ only in their seeds. Imports no method, so that the dispatcher starts quickly."""

from collections.abc import Mapping
from typing import Any

SEEDS = ("seed", "data_seed", "study")


def without_seeds(config: Mapping[str, Any]) -> dict[str, Any]:
    """Equal for runs that differ only in their seeds and their place in a study, and so may be trained together.

    ``config`` is the stored configuration of a run.
    """
    return {name: value for name, value in config.items() if name not in SEEDS}
