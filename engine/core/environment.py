"""Numbers from environment variables."""

import math
import os

from engine.core.errors import InvalidConfig


def whole_number(name: str) -> int | None:
    """A whole number of at least 1, or None if the variable is not set. Raises InvalidConfig."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfig([f"{name}: {text!r}, must be a whole number of at least 1; unset it for the default"])
    return int(text)


def nonnegative_number(name: str) -> float | None:
    """A number of at least 0, or None if the variable is not set. Raises InvalidConfig."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InvalidConfig([f"{name}: {text!r}, must be a number of at least 0; unset it for the default"])
    return value
