"""The section on settings: which values are best, when sharing helps, and in what the methods differ."""

from collections.abc import Iterator

from app.compare import dials, truth
from app.compare.configurations import configurations
from app.compare.section import Part
from app.compare.view import View
from app.state.choice import Choices


def draw(view: View, rows: View) -> None:
    dials.swept(view)
    truth.errors(view)
    truth.errors_over_classes(view)
    configurations(view)


def parts(view: View, rows: View, choices: Choices) -> Iterator[Part]:
    """The report has a separate table of the settings."""
    if (swept := dials.part(view, choices)) is not None:
        yield swept
    yield from truth.parts(view, choices)
