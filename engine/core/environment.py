"""Numbers that the environment sets."""

import math
import os

from engine.core.errors import InvalidConfig


def whole_number(name: str) -> int | None:
    """From 1 on; None where the variable is not set."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfig([f"{name}: {text!r}, but a whole number from 1 on is needed; unset it to let us choose"])
    return int(text)


def amount(name: str) -> float | None:
    """0 or more; None where the variable is not set."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InvalidConfig([f"{name}: {text!r}, but a number from 0 on is needed; unset it to let us choose"])
    return value
