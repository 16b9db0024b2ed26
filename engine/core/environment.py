"""Numbers from environment variables."""

import math
import os

from engine.core.errors import InvalidConfig


def whole_number(name: str, least: int = 1, most: int | None = None) -> int | None:
    """A whole number from ``least`` to ``most``, or None if the variable is not set. Raises InvalidConfig."""
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
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
