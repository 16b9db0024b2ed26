"""The panel with a paper's printed numbers and the compared runs, if some of them reproduce the paper."""

from collections.abc import Iterable, Iterator

import pandas as pd

from app.charts import paper_comparison
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.data.preset_catalog import SCALE_WORDS, known, preset_runs
from app.papers.paper_numbers import compared_numbers, dots, experiment_of, measure_of
from app.papers.preset_progress import Standing
from app.state import url_state, widgets
from app.state.choice import Choices
from app.wording import setting
from engine.config.presets import Preset
from engine.core.errors import InvalidConfig
from storage import RunRecord


@url_state.fragment
def panel(view: View) -> None:
    """Draws nothing if no run is of a preset with printed numbers; runs with other settings do not count."""
    for preset, scale, table in of_runs(view.runs.values()):
        if not widgets.toggle(_heading(preset), f"paper_{preset.name}_{scale}"):
            continue
        compared_numbers(table, _settings(preset, scale), SCALE_WORDS[scale], f"{preset.name}-{scale}")
        page.link("papers", "Full table", preset=preset.name, scale=scale)


def parts(view: View, choices: Choices) -> Iterator[Part]:
    for preset, scale, table in of_runs(view.runs.values()):
        if table["ours"].notna().any():
            experiment = experiment_of(table).made_in(choices)
            measure = measure_of(table, experiment).made_in(choices)
            name, words = f"{preset.name}-{scale}", SCALE_WORDS[scale]
            shown = dots(table, _settings(preset, scale), words, name, experiment, measure)
            yield Part(_heading(preset), (shown,))


def _heading(preset: Preset) -> str:
    return f"Compared with the paper: {preset.title}"


def _settings(preset: Preset, scale: str) -> dict[str, str]:
    return {config["name"]: setting(config) for config in preset.configs(scale)}


def of_runs(runs: Iterable[RunRecord]) -> list[tuple[Preset, str, pd.DataFrame]]:
    """Preset, scale, and the cells with a run among these, matched by name and whole configuration."""
    runs = list(runs)
    found = []
    for preset, scale in _candidates({run.experiment_name for run in runs}):
        tables = [_cells(preset, scale, name, runs) for name in dict.fromkeys(run.experiment_name for run in runs)]
        filled = [table for table in tables if table["seeds"].any()]
        if filled:
            found.append((preset, scale, pd.concat(filled, ignore_index=True)))
    return found


def _candidates(names: set[str]) -> list[tuple[Preset, str]]:
    try:
        presets = [preset for preset in known().values() if preset.paper]
    except InvalidConfig:
        return []
    return [
        (preset, scale)
        for preset in presets
        for scale in preset.scales
        if any(config["name"] in names for config in preset.configs(scale))
    ]


def _cells(preset: Preset, scale: str, experiment: str, runs: list[RunRecord]) -> pd.DataFrame:
    by_digest = {run.digest: run for run in runs if run.experiment_name == experiment}
    here = Standing(tuple((want, by_digest.get(want.digest)) for want in preset_runs(preset, scale, experiment)))
    compared = {key: found for key, found in here.by_label().items() if any(found)}
    return paper_comparison.data(preset.cells(experiment), compared)
