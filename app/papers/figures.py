"""The figures of a paper, as panels of Compare, and the one of each that stands for it in the gallery."""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from app.charts import beside_paper
from app.compare import cost, dials, effort, structure, truth
from app.compare.accuracy import distribution, low_mean_top
from app.compare.view import View
from app.components.shown import Shown
from app.papers.beside import dots, experiment_of, measure_of
from app.papers.results import Results
from app.state import url_state
from app.wording import setting


class Panel(NamedTuple):
    """What the page draws, and its first figure."""

    draw: Callable[[View], None]
    first: Callable[[View], Shown | None]


def _swept(view: View) -> Shown | None:
    choice = dials.parameter_of(view)
    return None if choice is None else dials.figure(view, choice.default)


def _first_of_truth(view: View) -> Shown | None:
    return next((figure for part in truth.parts(view, {}) for figure in part.figures), None)


def _effort(view: View) -> Shown | None:
    part = effort.part(view, {})
    return None if part is None else part.figures[0]


def _clusters(view: View) -> Shown | None:
    choice = structure.clustered_run(view)
    return None if choice is None else structure.raster(view, int(choice.default), ())


def _by_client(view: View) -> Shown | None:
    return low_mean_top(view, "mean", ())


PANELS = {
    "distribution": Panel(url_state.fragment(distribution), _by_client),
    "over_time": Panel(cost.over_time, lambda view: cost.curves(view, "round")),
    "swept": Panel(dials.swept, _swept),
    "errors": Panel(truth.errors, _first_of_truth),
    "errors_over_classes": Panel(truth.errors_over_classes, _first_of_truth),
    "effort": Panel(effort.effort, _effort),
    "clusters": Panel(url_state.fragment(structure.draw), _clusters),
}


def first_figure(results: Results) -> Shown | None:
    """Of the printed numbers, or of the preset's panels; without either the accuracy by client.

    None if there are fewer than two methods, or if only a page of a run draws the figure.
    """
    preset = results.preset
    if len(results.view.methods) < 2 or (preset.view and not preset.view.panels):
        return None
    table = printed(results)
    if table["ours"].notna().any():
        experiment = experiment_of(table).default
        settings = {config["name"]: setting(config) for config in preset.configs(results.scale)}
        measure = measure_of(table, experiment).default
        return dots(table, settings, results.scale, preset.name, experiment, measure)
    panels = preset.view.panels if preset.view else ()
    found = (PANELS[name].first(results.view) for name in panels)
    return next((figure for figure in found if figure is not None), None) or _by_client(results.view)


def printed(results: Results) -> pd.DataFrame:
    """The paper's numbers beside ours, as ``beside_paper.data`` gives them."""
    cells = [cell for config in results.preset.configs(results.scale) for cell in results.preset.cells(config["name"])]
    return beside_paper.data(cells, results.now.by_label())
