"""Labels at the ends of lines, in place of a legend that has to be looked up."""

import numpy as np
import plotly.graph_objects as go


def label_ends(fig: go.Figure, ends: list[tuple[str, float, float, str]], span: float, lines: int = 18) -> list[float]:
    """Writes each (text, x, y, colour) beside its point, moved apart where two would meet; answers their heights.

    ``span`` is the height of the y axis, ``lines`` how many labels fit above one another on it.
    """
    heights = spread_apart([y for _, _, y, _ in ends], span / lines)
    for (text, x, _, color), y in zip(ends, heights, strict=True):
        fig.add_annotation(
            x=x, y=y, text=text, showarrow=False, xanchor="left", xshift=9, font={"color": color, "size": 12}
        )
    return heights


def spread_apart(values: list[float], gap: float) -> list[float]:
    """The nearest positions in the same order that keep ``gap`` between neighbours."""
    order = np.argsort(values, kind="stable")
    groups: list[tuple[float, int]] = []  # centre and members of labels that touch
    for index in order:
        centre, size = float(values[index]), 1
        while groups and centre - groups[-1][0] < gap * (size + groups[-1][1]) / 2:
            before, members = groups.pop()
            centre, size = (before * members + centre * size) / (members + size), members + size
        groups.append((centre, size))
    placed = [centre + gap * (i - (size - 1) / 2) for centre, size in groups for i in range(size)]
    result = np.empty(len(values))
    result[order] = placed
    return result.tolist()
