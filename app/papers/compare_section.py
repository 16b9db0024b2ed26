"""The panel with a paper's printed numbers beside the compared runs, if some of them reproduce the paper."""

from collections.abc import Iterable

import pandas as pd

from app.charts import beside_paper
from app.compare.view import View
from app.components import page
from app.data.preset_catalog import SCALE_WORDS, known, wanted
from app.papers.beside import beside
from app.papers.preset_progress import Standing
from app.state import url_state
from app.wording import setting
from engine.config.presets import Preset
from engine.core.errors import InvalidConfig
from storage import RunRecord


@url_state.fragment
def panel(view: View) -> None:
    """Nothing if no run belongs to a preset with printed numbers; runs with other settings do not count."""
    for preset, scale, table in of_runs(view.runs.values()):
        page.section(f"Compared with the paper: {preset.title}")
        settings = {config["name"]: setting(config) for config in preset.configs(scale)}
        beside(table, settings, SCALE_WORDS[scale], f"{preset.name}-{scale}")
        page.link("papers", "Full table", preset=preset.name, scale=scale)


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
    here = Standing(tuple((want, by_digest.get(want.digest)) for want in wanted(preset, scale, experiment)))
    compared = {key: found for key, found in here.by_label().items() if any(found)}
    return beside_paper.data(preset.cells(experiment), compared)
