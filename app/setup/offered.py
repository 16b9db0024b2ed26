"""The values of a parameter that a sweep offers."""

import math
from typing import Any

from app.forms import is_number
from engine.core.registry import Parameter

SMALL_RANGE = 10.0  # up to which a bounded parameter is offered in equal steps
SMALL_COUNT = 10  # up to which each whole number is offered
DECADES = 3  # below and above the value, where bounds are far away
DIGITS = (1, 2, 5)  # of each decade


def offered(parameter: Parameter, value: Any, stand_in: Any = None) -> list[Any]:
    """Values of a parameter within its bounds: in equal steps in a small range, in a logarithmic one otherwise."""
    words = list(parameter.choices or ())
    kinds = set(parameter.type.split("|"))
    if kinds == {"bool"}:
        return [False, True]
    if not kinds & {"int", "float"}:
        return words
    center = next((one for one in (value, stand_in, parameter.default) if _is_positive(one)), 1)
    low, high = parameter.minimum or 0, parameter.maximum or math.inf
    is_whole = "int" in kinds and "float" not in kinds
    if not is_whole and high - low <= SMALL_RANGE:
        numbers: list[Any] = [round(low + n * (high - low) / 10, 10) for n in range(11)]
    else:
        numbers = [0] if low == 0 else []
        numbers += range(1, SMALL_COUNT + 1) if is_whole and center <= SMALL_COUNT else []
        numbers += _decades(center, is_whole)
    return [*words, *(n for n in sorted(set(numbers)) if _is_allowed(n, parameter))]


def first_values(parameter: Parameter, value: Any, stand_in: Any = None) -> list[Any]:
    """A sweep to start from: the value, the next lower and the next higher one; all values of a short list."""
    choices = offered(parameter, value, stand_in)
    if not set(parameter.type.split("|")) & {"int", "float"}:
        return choices
    center = next((one for one in (value, stand_in) if is_number(one)), None)
    if center is None:
        return []
    numbers = sorted({one for one in choices if is_number(one)} | {center})
    at = numbers.index(center)
    return numbers[max(at - 1, 0) : at + 2]


def text_of(value: Any) -> str:
    """A value as it is typed, so that ``read_value`` returns it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _decades(center: float, is_whole: bool) -> list[Any]:
    """1, 2, 5, 10, ... around ``center``."""
    middle = math.floor(math.log10(center))
    found = [digit * 10.0**power for power in range(middle - DECADES, middle + DECADES + 1) for digit in DIGITS]
    return [int(one) for one in found if one >= 1] if is_whole else [float(f"{one:.3g}") for one in found]


def _is_allowed(number: float, parameter: Parameter) -> bool:
    low, high = parameter.minimum, parameter.maximum
    is_above = low is None or number > low or (number == low and "minimum" not in parameter.excludes)
    return is_above and (high is None or number < high or (number == high and "maximum" not in parameter.excludes))


def _is_positive(value: Any) -> bool:
    return is_number(value) and 1e-12 < value < 1e12
