"""The figures of a paper as panels of Compare, and the one that represents each in the gallery."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
import streamlit as st

from app.charts import feature_map, paper_comparison
from app.charts.plot import figure_cache
from app.compare import cost, dials, effort, structure, truth
from app.compare.accuracy import distribution, low_mean_top
from app.compare.view import View
from app.components import page, terms
from app.components.shown import Shown, with_finding
from app.inside.features import NEIGHBORS, WARNING
from app.papers import landscapes
from app.papers.paper_numbers import dots, experiment_of, measure_of
from app.papers.results import Results
from app.state import url_state
from app.wording import setting
from engine.config.presets import Preset


class Panel(NamedTuple):
    """A panel of the page and its first figure; a panel that ``joins`` experiments draws all of them in one."""

    draw: Callable[[View], None]
    first: Callable[[View], Shown | None]
    joins: bool = False


def _swept(view: View) -> Shown | None:
    choice = dials.parameter_of(view)
    return None if choice is None else dials.figure(view, choice.default)


def _first_of_truth(view: View) -> Shown | None:
    parts = truth.parts(view, {truth.SHOWN.name: "statistical"})
    return next((figure for part in parts for figure in part.figures), None)


def _effort(view: View, goal: str = "accuracy") -> Shown | None:
    part = effort.part(view, {}, goal)
    return None if part is None else part.figures[0]


def _clusters(view: View) -> Shown | None:
    choice = structure.clustered_run(view)
    return None if choice is None else structure.raster(view, int(choice.default), ())


def _by_client(view: View) -> Shown | None:
    return low_mean_top(view, "mean", ())


def _features(view: View) -> list[Shown]:
    """The t-SNE of each run whose features are computed."""
    shown = []
    for method in view.methods:
        found = view.source.analysis(method.runs[0].id, "features")
        if found is not None:
            arrays, classes = found.arrays, (method.runs[0].partition or {}).get("class_names") or []
            label, client = (arrays[name].astype(int) for name in ("label", "client"))
            points = feature_map.data(arrays["tsne"], label, client, classes)
            groups: tuple[feature_map.Group, ...] = ("class", "client")
            measures = {group: found.values[group] for group in groups}
            name = f"features-{method.name.casefold()}"
            finding = feature_map.finding(measures, NEIGHBORS)
            drawn = figure_cache.figure(feature_map.figure, points)
            shown.append(with_finding(drawn, points, finding, key=name, name=name, title=method.name))
    return shown


def _draw_features(view: View) -> None:
    if not (shown := _features(view)):
        terms.caption("Not computed yet: open a run below, and press Compute features there.")
        return
    page.section("Do features group by class or by client?")
    for column, one in zip(st.columns(len(shown), gap="large"), shown, strict=True):
        with column:
            page.show(one)
    terms.caption(WARNING)


def _last_of_features(view: View) -> Shown | None:
    return next(reversed(_features(view)), None)


PANELS = {
    "distribution": Panel(url_state.fragment(distribution), _by_client),
    "over_time": Panel(cost.over_time, lambda view: cost.curves(view, "round")),
    "swept": Panel(dials.swept, _swept),
    "errors": Panel(partial(truth.errors, first="statistical"), _first_of_truth, joins=True),
    "errors_over_classes": Panel(truth.errors_over_classes, _first_of_truth, joins=True),
    "effort": Panel(effort.effort, _effort),
    "effort_by_error": Panel(partial(effort.effort, first="error"), partial(_effort, goal="error")),
    "features": Panel(_draw_features, _last_of_features),
    "landscape": Panel(url_state.fragment(landscapes.draw), landscapes.first),
    "clusters": Panel(url_state.fragment(structure.draw), _clusters),
}


def first_figure(results: Results) -> Shown | None:
    """The first figure of the printed numbers or of the preset's panels; without either the accuracy by client.

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
    panels = [PANELS[name] for name in panels_of(preset)]
    first = results.of_setting(results.begun[0])
    found = (panel.first(results.view if panel.joins else first) for panel in panels)
    return next((figure for figure in found if figure is not None), None)


def panels_of(preset: Preset) -> Sequence[str]:
    """The panels of the preset; without figures, those on the accuracy of its methods."""
    return preset.view.panels if preset.view else ("distribution", "over_time")


def printed(results: Results) -> pd.DataFrame:
    """The paper's numbers and ours, as ``paper_comparison.data`` gives them."""
    cells = [cell for config in results.preset.configs(results.scale) for cell in results.preset.cells(config["name"])]
    return paper_comparison.data(cells, results.now.by_label())
