"""All figures and tables with a preset, by paper."""

from collections.abc import Mapping

import streamlit as st

from app.components import page, terms
from app.data.preset_catalog import SCALES, by_document, wanted
from app.papers.preset_progress import standing
from app.wording import count, plain, plural
from engine.config.presets import OURS, Preset


def listing(presets: Mapping[str, Preset]) -> None:
    """A heading per paper; under it a link, a sentence and the number of runs for each figure and table."""
    done = _done(presets)
    for document, own in by_document(dict(presets)).items():
        st.header("Not from a paper" if document == OURS else plain(document), anchor=False)
        for preset in own:
            with st.container(key=f"paper_{preset.name}", gap="small"):
                page.link("papers", plain(preset.title), preset=preset.name)
                terms.caption(" ".join(filter(None, [preset.shows, numbers(preset, done[preset.name])])))


def numbers(preset: Preset, done: int) -> str:
    """``Quick: 54 runs (24 done) · Full: 162``"""
    first, *rest = preset.scales
    parts = [f"{SCALES[first]}: {plural(len(wanted(preset, first)), 'run')}" + (f" ({done} done)" if done else "")]
    parts += [f"{SCALES[scale]}: {count(len(wanted(preset, scale)))}" for scale in rest]
    return " · ".join(parts)


def _done(presets: Mapping[str, Preset]) -> dict[str, int]:
    """How many runs of each preset's smallest scale are done, with one database query."""
    wants = {name: wanted(preset, next(iter(preset.scales))) for name, preset in presets.items()}
    every = standing([run for own in wants.values() for run in own])
    here = {run.digest for run in every.done}
    return {name: sum(run.digest in here for run in own) for name, own in wants.items()}
