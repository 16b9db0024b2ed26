"""Thin lines that join pairs of points, many in one trace."""

from collections.abc import Iterable


def joined(starts: Iterable[float], ends: Iterable[float]) -> list[float | None]:
    """One coordinate of separate lines, with gaps between."""
    return [value for pair in zip(starts, ends, strict=True) for value in (*pair, None)]
