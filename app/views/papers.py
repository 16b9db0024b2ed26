"""Papers: figures and tables of the papers, reproduced and compared with the published numbers."""

from pathlib import Path

import streamlit as st

from app.components import page
from app.data.preset_catalog import SCALES, known, preset_runs
from app.papers import study_result
from app.papers.gallery import finding, gallery, shown
from app.papers.preset_progress import changed, changed_sentence, standing
from app.papers.progress import progress_panel
from app.papers.result import result
from app.papers.results import results_of
from app.state import url_state, widgets
from app.wording import lines, plain
from engine.config.presets import Preset
from engine.core.errors import InvalidConfig

MAX_QUOTED = 40  # letters of an address
STYLE = Path(__file__).parent.parent / "papers" / "papers.css"


def render() -> None:
    page.require_store()
    st.html(STYLE)
    try:
        presets = known()
    except InvalidConfig as error:
        page.header("PAPERS", "Paper reproductions")
        st.error(lines(error.problems))
        return
    requested = url_state.get("preset") or ""
    chosen = presets.get(requested)
    if chosen is None:
        entries = shown(presets)
        page.header("PAPERS", "Paper reproductions", finding(entries))
        if requested:
            st.warning(plain(f"No figure or table named “{requested[:MAX_QUOTED]}”. Choose one below."))
        gallery(entries)
        return
    one(chosen)


def one(preset: Preset) -> None:
    """One figure or table: what it shows, the progress of its runs, and the results."""
    page.titled(preset.title, "papers")
    page.header(" · ".join(filter(None, [preset.document, preset.item])), preset.title, preset.shows or None)
    scales = {scale: SCALES[scale] for scale in preset.scales}
    with st.container(horizontal=True, vertical_alignment="bottom", key="papers_scale"):
        scale = widgets.switch("Scale", scales, "scale", next(iter(scales)))
        page.link("papers", "All papers")
    if scale == "quick" and preset.cut:
        st.markdown(f"**Reduced at this scale.** {plain(preset.cut)}")
    if preset.is_study:
        study_result.panel(preset, scale)
    else:
        of_runs(preset, scale)
    with st.expander("Where the settings come from"):
        st.markdown(plain(preset.source))


def of_runs(preset: Preset, scale: str) -> None:
    planned = preset_runs(preset, scale)
    now = standing(planned)
    results = results_of(preset, scale, now)
    progress_panel(preset, scale, now)
    for experiment, fields in changed(planned, preset.configs(scale)).items():
        st.warning(plain(changed_sentence(experiment, fields)))
    if results.shipped:
        st.html(f'<p class="caption">{results.origin} <code>{results.shipped.command}</code>.</p>')
    result(results)


with url_state.page("papers"):
    render()
