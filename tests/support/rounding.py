"""Results that equal others up to the order of sums in single precision, which depends on the processor."""

from collections.abc import Sequence
from typing import Any

import pytest


def equal_to_rounding(one: Any, other: Any) -> bool:
    """Whether documents differ in nothing but the last digits of numbers in single precision."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal_to_rounding(one[key], other[key]) for key in one)
    if isinstance(one, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(equal_to_rounding, one, other))
    return one == (pytest.approx(other, rel=1e-5, nan_ok=True) if isinstance(one, float) else other)
