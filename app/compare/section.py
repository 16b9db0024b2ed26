"""A section of Compare: what it draws on the page, and its figures without the page, for the report."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.compare.view import View
from app.components.shown import Shown
from app.state.choice import Choices


@dataclass(frozen=True)
class Part:
    """Figures under one heading."""

    heading: str
    figures: tuple[Shown, ...]


@dataclass(frozen=True)
class Section:
    """``draw(view, rows)`` and ``parts(view, rows, choices)``; ``rows`` is the view, grouped as chosen.

    ``shows_clients``: chosen clients are highlighted in its charts.
    """

    title: str
    draw: Callable[[View, View], None]
    parts: Callable[[View, View, Choices], Iterator[Part]]
    shows_clients: bool = False
