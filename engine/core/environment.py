"""Numbers from environment variables."""

import math
import os

from engine.core.errors import InvalidConfig

STATE_MB = "FEDSCAPE_STATE_MB"
DEFAULT_STATE_MB = 1024


def whole_number(name: str, minimum: int = 1, maximum: int | None = None) -> int | None:
    """A whole number from ``minimum`` to ``maximum``, or None if the variable is not set. Raises InvalidConfig."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < minimum or (maximum is not None and int(text) > maximum):
        allowed = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise InvalidConfig([f"{name}: {text!r}, must be a whole number {allowed}; unset it for the default"])
    return int(text)


def nonnegative_number(name: str) -> float | None:
    """A number of at least 0, or None if the variable is not set. Raises InvalidConfig."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    value = finite_number(text)
    if value is None or value < 0:
        raise InvalidConfig([f"{name}: {text!r}, must be a number of at least 0; unset it for the default"])
    return value


def finite_number(text: str) -> float | None:
    """The number that ``text`` is, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def state_bytes() -> int:
    """The limit of the state by client that a run keeps in memory, in bytes. Raises InvalidConfig."""
    limit = nonnegative_number(STATE_MB)
    return round(2**20 * (DEFAULT_STATE_MB if limit is None else limit))
