"""The panel that sets a paper's printed numbers beside the runs compared, where some of them are the paper's."""

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
    """Nothing where no run is of a preset with printed numbers; a run with other settings is none of the paper's."""
    for preset, scale, table in of_runs(view.runs.values()):
        page.section(f"What does the paper say? {preset.title}")
        settings = {config["name"]: setting(config) for config in preset.configs(scale)}
        beside(table, settings, SCALE_WORDS[scale], f"{preset.name}-{scale}")
        page.link("papers", "The whole table", preset=preset.name, scale=scale)


def of_runs(runs: Iterable[RunRecord]) -> list[tuple[Preset, str, pd.DataFrame]]:
    """Preset, scale, and the cells that have a run among these, recognised by name and whole configuration."""
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
