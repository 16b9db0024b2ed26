"""Preset experiments: the papers' figures and tables, at quick and full scale."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import wording
from app.actions import launch
from app.components import page
from app.components.queue_button import queue_button
from app.data.preset_catalog import SCALES
from app.data.preset_catalog import known as known_presets
from app.data.shipped import is_shipped
from app.forms import Form
from app.setup import draft as drafts
from app.wording import lines, plain
from engine.config.presets import OURS, Preset
from engine.config.schema import parse_experiment
from engine.core.errors import InvalidConfig

FIRST = "digits-first"  # needs no download and a minute


def presets_panel(form: Form, notice: DeltaGenerator) -> None:
    """Choose a preset; fill the form with one of its experiments, or queue them all.

    ``queue_button`` shows its notice in ``notice``.
    """
    try:
        known = known_presets()
    except InvalidConfig as error:
        st.error(plain(str(error)))
        return
    if not known:
        return
    with st.popover("Presets", key="presets", width="stretch"):
        names = sorted(known, key=lambda n: n != FIRST)
        name = st.selectbox("Preset", names, key="preset", format_func=lambda n: known[n].title)
        preset = known[name]
        page.link("papers", in_papers(preset), preset=name)
        st.caption(plain(preset.shows or preset.source))
        scale = st.segmented_control(
            "Scale",
            list(preset.scales),
            key=f"preset_scale.{name}",
            required=True,
            default=next(iter(preset.scales)),
            format_func=SCALES.__getitem__,
        )
        if scale == "quick" and preset.cut:
            st.caption(plain(f"Reduced at this scale: {preset.cut}"))
        for config in preset.configs(scale):
            st.button(
                f"Fill in “{plain(config['name'])}”",
                key=f"fill.{name}.{scale}.{config['name']}",
                on_click=drafts.load,
                args=(form, config),
                width="stretch",
            )
        _queue_all(preset, scale, notice)


def in_papers(preset: Preset) -> str:
    """The text of the link to the preset in Papers."""
    if preset.document != OURS:
        return "Compare with the paper"
    return "See the result" if any(is_shipped(preset, scale) for scale in preset.scales) else "Open in Papers"


def num_runs(preset: Preset, scale: str) -> int:
    return sum(len(parse_experiment(config).runs()) for config in preset.configs(scale))


def _queue_all(preset: Preset, scale: str, notice: DeltaGenerator) -> None:
    try:
        label = "Queue study" if preset.is_study else f"Queue all {wording.plural(num_runs(preset, scale), 'run')}"
    except InvalidConfig as error:
        st.error(lines(error.problems))
        return
    key, queue = f"queue.{preset.name}.{scale}", partial(launch.queue_preset, preset, scale)
    if records := queue_button(label, key, queue, doing="Checking the data", notice=notice):
        launch.watch(records)
