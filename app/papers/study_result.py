"""A preset that is a study: the reader's own study, or the shipped one, which the Study page shows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from app.components import page, terms
from app.components.examples import study_button
from app.components.timed import timed
from app.data.preset_catalog import SCALE_WORDS, SCALES
from app.data.shipped import is_shipped
from app.data.study_size import study_size
from app.papers.card import CARDS_KEPT, Card, shipped_card
from app.papers.progress import run_button
from app.papers.sketch import sketch
from app.study import choosing, finding, progress, tuning
from app.study.study import Study
from app.wording import plain
from engine.config.options import Machine
from engine.config.presets import Preset
from engine.config.schema import ExperimentConfig, parse_experiment
from engine.config.study import Study as StudyConfig
from engine.core.errors import InvalidConfig

REFRESH_S = 5


@dataclass(frozen=True)
class StudyResult:
    """A study preset at one scale. ``own`` is the newest study with its settings, under any name."""

    preset: Preset
    scale: str
    own: Study | None

    @property
    def is_done(self) -> bool:
        """Whether the reader's study is finished and has results."""
        return self.own is not None and self.own.is_finished and len(self.own.final_runs) > 0

    @property
    def card(self) -> Card:
        if self.is_done:
            assert self.own is not None
            return _card(self.own.experiment.id, tuple((run.id, run.status) for run in self.own.finals), self.own)
        return shipped_card(self.preset, self.scale) or Card()

    @property
    def size(self) -> str:
        """``240 trials on validation data, then at most 180 final runs.``"""
        (config,) = self.preset.configs(self.scale)
        return _size_of(repr(config), config)

    @property
    def progress(self) -> str:
        """``Trials 112 of 160, final runs wait for 3 methods.``; empty if no study of the reader is unfinished."""
        return "" if self.own is None else " ".join(progress.sentences(self.own, datetime.now(UTC)))


def study_result(preset: Preset, scale: str) -> StudyResult:
    (wanted,) = preset.configs(scale)
    settings = _settings_of(repr(wanted), wanted)
    same = (one for one in choosing.studies() if _settings_of(repr(one.config), one.config) == settings)
    found = next(same, None)
    return StudyResult(preset, scale, None if found is None else choosing.study_of(found))


def panel(preset: Preset, scale: str) -> None:
    """The progress or the result, and the buttons that queue the study and open it."""
    now = study_result(preset, scale)
    if now.own is None:
        st.markdown(f"**{SCALES[scale]}**: {plain(now.size)}")
    elif not now.own.is_finished:
        _follow(preset, scale, now.own.is_finished)
    if card := now.card.verdict:
        terms.paragraph(f"{card}." if now.is_done else f"Shipped result, {SCALE_WORDS[scale]} scale: {card}.")
    row, notice = st.container(horizontal=True, vertical_alignment="center", key="papers_actions"), st.container()
    with row:
        if now.own is None:
            run_button(preset, scale, f"Run the {SCALE_WORDS[scale]} version", notice)
            if is_shipped(preset, scale):
                study_button(preset, scale)
        else:
            page.link("study", "Open the study", experiment=now.own.experiment.id)
            if not now.own.is_finished:
                page.link("live", "Watch live", experiment=now.own.experiment.id)
    if now.own is not None and now.is_done:
        page.show(tuning.worth(now.own))


def drawn(study: Study) -> Card:
    """The card of a finished study: its defaults and tuned settings, and the finding."""
    return Card(sketch(lambda: tuning.worth(study)), finding.of(study).title)


@st.cache_resource(show_spinner=False, max_entries=CARDS_KEPT)
def _card(experiment_id: int, finals: object, _study: Study) -> Card:
    return drawn(_study)


@st.cache_resource(show_spinner=False, max_entries=500)
def _settings_of(text: str, _config: Mapping[str, Any]) -> ExperimentConfig | None:
    """What must be equal for studies to be the same: all but the name and the machine. None if it is not valid."""
    try:
        return replace(parse_experiment(_config), raw={}, name="", machine=Machine())
    except InvalidConfig:
        return None


@st.cache_resource(show_spinner=False, max_entries=50)
def _size_of(text: str, _config: Mapping[str, Any]) -> str:
    config = parse_experiment(_config)
    assert config.tune is not None
    return study_size(list(StudyConfig(config).planned()), config.tune)


@timed(REFRESH_S)
def _follow(preset: Preset, scale: str, was_finished: bool) -> None:
    now = study_result(preset, scale)
    if now.own is None or now.own.is_finished != was_finished:
        st.rerun()
    st.markdown(f"**{SCALES[scale]}**: {plain(now.progress)}")
