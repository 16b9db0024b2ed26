"""The results: the paper's numbers beside ours, and figures without printed numbers."""

from collections.abc import Callable

import streamlit as st

from app.charts import beside_paper
from app.compare.accuracy import distribution
from app.compare.cost import over_time
from app.compare.dials import swept
from app.compare.effort import effort
from app.compare.truth import errors, errors_over_classes
from app.compare.view import View
from app.components import page, terms
from app.data import queries
from app.data.comparison import methods_of
from app.data.preset_catalog import SCALE_WORDS
from app.papers.beside import beside
from app.papers.preset_progress import Standing
from app.state import url_state
from app.wording import names, plain, setting
from engine.config.presets import Preset
from storage import RunRecord

PANELS: dict[str, Callable[[View], None]] = {
    "distribution": url_state.fragment(distribution),
    "over_time": over_time,
    "swept": swept,
    "errors": errors,
    "errors_over_classes": errors_over_classes,
    "effort": effort,
}


def result(preset: Preset, scale: str, now: Standing) -> None:
    """The paper's figures and printed numbers, and links to the runs."""
    if preset.view:
        terms.paragraph(preset.view.note)
        figures(preset, now)
    if preset.paper:
        numbers(preset, scale, now)
    ways(preset, now)


def figures(preset: Preset, now: Standing) -> None:
    """The panels of Compare for the preset's figures, with the runs that are done."""
    methods = tuple(methods_of(queries.runs(run_ids=[run.id for run in now.done], with_partition=True)))
    if preset.view is None or len(methods) < 2:
        return
    view = View.from_address(methods)
    for name in preset.view.panels:
        PANELS[name](view)


def numbers(preset: Preset, scale: str, now: Standing) -> None:
    st.header("Compared with the paper", anchor=False)
    configs = {config["name"]: config for config in preset.configs(scale)}
    cells = [cell for name in configs for cell in preset.cells(name)]
    table = beside_paper.data(cells, now.by_label())
    if scale == "quick":
        terms.caption("The quick version differs from the paper's setting: expect different numbers.")
    beside(table, {name: setting(config) for name, config in configs.items()}, SCALE_WORDS[scale], preset.name)
    printed = sum(len(table.rows) * len(table.measures) for table in preset.paper)
    if printed > len(table):
        files = names(table.file for table in preset.paper)
        terms.caption(f"{len(table)} of the {printed} numbers of {files} have a run at this scale.")


def ways(preset: Preset, now: Standing) -> None:
    """Links to each experiment's runs in Compare, and to the page that draws the figure."""
    if not now.done:
        return
    st.header("Explore the runs", anchor=False)
    for experiment in dict.fromkeys(wanted.experiment for wanted, _ in now.pairs):
        own = [run for run in now.of(experiment) if run.status == "done"]
        if not own:
            continue
        with st.container(horizontal=True, vertical_alignment="center", key=f"ways_{experiment}"):
            st.markdown(plain(experiment))
            page.link("compare", "Compare", runs=",".join(str(run.id) for run in own))
            if preset.view and preset.view.page == "run":
                for run in _first_seeds(own):
                    page.link("run", plain(run.label), id=run.id, **preset.view.params)
    every = ",".join(str(run.id) for run in now.done)
    page.link("compare", "Compare all", runs=every)


def _first_seeds(runs: list[RunRecord]) -> list[RunRecord]:
    first: dict[str, RunRecord] = {}
    for run in runs:
        first.setdefault(run.label, run)
    return list(first.values())
