"""The sections of Compare, in the order of the page. Only the one that a reader has open is computed and drawn."""

from collections.abc import Iterator

from app.compare import accuracy, clients, cost, settings
from app.compare.section import Part, Section
from app.compare.view import View
from app.state.choice import Choice, Choices

SECTIONS = {
    "accuracy": Section("Accuracy", accuracy.draw, accuracy.parts, shows_clients=True),
    "clients": Section("Clients", clients.draw, clients.parts, shows_clients=True),
    "cost": Section("Cost", cost.draw, cost.parts),
    "settings": Section("Settings", settings.draw, settings.parts),
}
OPEN = Choice("Section", {name: section.title for name, section in SECTIONS.items()}, "section", "accuracy")


def parts(view: View, rows: View, choices: Choices) -> Iterator[Part]:
    """The figures of all sections, with these choices."""
    for section in SECTIONS.values():
        yield from section.parts(view, rows, choices)
