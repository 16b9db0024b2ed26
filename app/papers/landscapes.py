"""The loss landscapes of a preset's runs: around the global and a client's model of each method, on one scale."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from app.charts import surface
from app.compare.view import View
from app.components import page, terms
from app.components.shown import Shown, with_finding
from app.data.source import Source
from app.inside.landscape import DATA, GROUNDS, panels, side_by_side, title
from app.state import widgets
from app.wording import count
from engine.core.findings import Findings

NAME = "landscapes"


def draw(view: View) -> None:
    found = _found(view)
    if not found:
        terms.caption("Not computed yet: open a run below, and press Compute landscape there.")
        return
    page.section("How flat is the loss around the models?")
    points = _points(found, widgets.switch("Loss on", GROUNDS, "loss", "own"))
    side_by_side(points, NAME)
    terms.caption(f"{surface.finding(points)} {_about(next(iter(found.values())))}")


def first(view: View) -> Shown | None:
    """The surfaces of the first method, in a row."""
    for method, found in _found(view).items():
        points = _points({method: found}, "own")
        return with_finding(surface.in_a_row(points), points, surface.finding(points), key=NAME, name=NAME)
    return None


def rise(source: Source, run_id: int, name: str) -> float | None:
    """How much the loss rises around a model, halfway to the edge of ``name``, a surface; None if not computed."""
    found = source.analysis(run_id, "landscape")
    if found is None or name not in found.arrays:
        return None
    return float(surface.rises(surface.data(found.arrays["axis"], {name: found.arrays[name]}))["rise"].iloc[0])


def _found(view: View) -> dict[str, Findings]:
    """method -> the landscapes of its first run, if computed."""
    of = {method.name: view.source.analysis(method.runs[0].id, "landscape") for method in view.methods}
    return {name: found for name, found in of.items() if found is not None}


def _points(found: dict[str, Findings], ground: str) -> pd.DataFrame:
    surfaces = {
        f"{method}, {title(name, own.values['client'], own)}": own.arrays[name]
        for method, own in found.items()
        for name in _distinct(own, ground)
    }
    return surface.data(next(iter(found.values())).arrays["axis"], surfaces)


def _distinct(found: Findings, ground: str) -> Iterator[str]:
    """The surfaces to show; only that of the global model where each client uses it."""
    on = {"personalized_own": "global_own", "personalized_everyone": "global_everyone"}
    for name in panels(found, ground):
        shared = found.arrays.get(on.get(name, ""))
        if shared is None or not np.array_equal(shared, found.arrays[name]):
            yield name


def _about(found: Findings) -> str:
    points, data = len(found.arrays["axis"]), DATA[found.values["data"]].lower()
    return (
        f"{count(points)} × {count(points)} points along two random directions; a distance of 1 moves each filter by "
        f"its own norm. Round {found.values['round']}, {data} samples; biases and normalizations are fixed, colors: "
        "logarithm of the loss."
    )
