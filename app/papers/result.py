"""The results: the paper's claims and our figures, the paper's numbers and ours, and links to the runs."""

from html import escape

import streamlit as st

from app.components import page, terms
from app.data.preset_catalog import SCALE_WORDS
from app.papers.claim import Verdict, verdicts
from app.papers.figures import PANELS, panels_of, printed
from app.papers.paper_numbers import compared_numbers
from app.papers.results import Results
from app.state.choice import Choice
from app.wording import names, plain, setting
from engine.config.presets import Preset
from storage import RunRecord


def result(results: Results) -> None:
    preset = results.preset
    if preset.view:
        terms.paragraph(preset.view.note)
    claimed(results)
    if preset.view or not preset.paper:
        figures(results)
    if preset.paper:
        numbers(results)
    if results.shipped is None:
        ways(results)


def claimed(results: Results) -> None:
    """Draw the paper's claims without printed numbers, and whether they hold here."""
    found = verdicts(results)
    if not found:
        return
    page.section("What the paper claims")
    for verdict in found:
        st.html(_claim(verdict))
    if results.scale == "quick":
        terms.caption("Quick scale is not the published scale: a claim may hold at one and fail at the other.")


def _claim(verdict: Verdict) -> str:
    claim, state = verdict.claim, verdict.state
    reading = f" We test: {escape(claim.reading)}." if claim.reading else ""
    return (
        f'<div class="claim {state}"><p class="says">{terms.marked(claim.says)} '
        f'<span class="where">{escape(claim.where[:1].upper() + claim.where[1:])}.{reading}</span></p>'
        f"<p><strong>{verdict.head}:</strong> {escape(verdict.sentence()).replace(' %', '&nbsp;%')}</p></div>"
    )


def figures(results: Results) -> None:
    """The panels of Compare for the preset's figures, with the runs that are done: of one experiment or of all."""
    if len(results.view.methods) < 2:
        return
    panels = [PANELS[name] for name in panels_of(results.preset)]
    settings = {setting.name: setting for setting in results.begun}
    chosen = results.view
    if len(settings) > 1 and not all(panel.joins for panel in panels):
        experiment = Choice("Experiment", {name: name for name in settings}, "paper_of", next(iter(settings))).pick()
        chosen = results.of_setting(settings[experiment])
    for panel in panels:
        view = results.view if panel.joins else chosen
        panel.draw(view if results.shipped else view.from_address(view.methods))


def numbers(results: Results) -> None:
    preset, scale = results.preset, results.scale
    st.header("Compared with the paper", anchor=False)
    table = printed(results)
    if scale == "quick":
        terms.caption("The quick version differs from the paper's setting: expect different numbers.")
    settings = {config["name"]: setting(config) for config in preset.configs(scale)}
    compared_numbers(table, settings, SCALE_WORDS[scale], preset.name)
    known = sum(len(table.rows) * len(table.measures) for table in preset.paper)
    if known > len(table):
        files = names(table.file for table in preset.paper)
        terms.caption(f"{len(table)} of the {known} numbers of {files} have a run at this scale.")


def ways(results: Results) -> None:
    """Links to each experiment's runs in Compare, and to the page that draws the figure."""
    now = results.now
    if not now.done:
        return
    st.header("Explore the runs", anchor=False)
    for experiment in dict.fromkeys(planned.experiment for planned, _ in now.pairs):
        own = [run for run in now.of(experiment) if run.status == "done"]
        if not own:
            continue
        with st.container(horizontal=True, vertical_alignment="center", key=f"ways_{experiment}"):
            st.markdown(plain(experiment))
            page.link("compare", "Compare", runs=",".join(str(run.id) for run in own))
            _to_figures(results.preset, own)
    every = ",".join(str(run.id) for run in now.done)
    page.link("compare", "Compare all", runs=every)


def _to_figures(preset: Preset, runs: list[RunRecord]) -> None:
    if preset.view and preset.view.page == "run":
        first: dict[str, RunRecord] = {}
        for run in runs:
            first.setdefault(run.label, run)
        for run in first.values():
            page.link("run", plain(run.label), id=run.id, **preset.view.params)
