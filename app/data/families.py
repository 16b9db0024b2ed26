"""The families of methods, in reading order."""

from collections.abc import Iterable

from engine.core.registry import Entry

FAMILIES = (
    "Baselines",
    "Regularized toward a shared model",
    "Clustered",
    "Split models",
    "Knowledge transfer",
    "Sharpness-aware",
    "Hypernetworks",
)
"""In reading order; others come last."""


def by_family(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Families in reading order, methods by title."""
    found: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.title.casefold()):
        found.setdefault(entry.family, []).append(entry)
    order = {family: place for place, family in enumerate(FAMILIES)}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))
