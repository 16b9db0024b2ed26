"""Adds many annotations to a figure at once."""

from collections.abc import Iterable, Mapping

import plotly.graph_objects as go

Note = Mapping[str, object]  # the arguments of ``add_annotation``
SERIES = "series"  # the ``name`` of a note that names marks, for which a printed figure can have a legend instead


def annotate(fig: go.Figure, notes: Iterable[Note]) -> None:
    """Adds them all; ``add_annotation`` copies all existing ones each time."""
    fig.layout.annotations = [*fig.layout.annotations, *map(dict, notes)]
