"""All presets, and the runs of each. Cached until a file changes."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from engine.config.presets import FOLDER, OURS, Preset, load_preset, preset_names
from engine.config.schema import ExperimentConfig, parse_experiment

SCALES = {"quick": "Quick", "paper": "Full"}
SCALE_WORDS = {"quick": "quick", "paper": "full"}  # before a noun


@dataclass(frozen=True)
class PresetRun:
    """A run of a preset. Every run with the same numbers has this ``digest``, under any name."""

    experiment: str
    label: str
    algorithm: str
    seed: int
    digest: str


def known() -> dict[str, Preset]:
    """All presets by name. Raises InvalidConfig if a file is not a valid preset."""
    files = [FOLDER / f"{name}.yaml" for name in preset_names(FOLDER)]
    return _known(tuple((file, file.stat().st_mtime_ns) for file in files))


def by_document(presets: dict[str, Preset]) -> dict[str, list[Preset]]:
    """Presets by paper in alphabetical order, others last."""
    documents = sorted({preset.document for preset in presets.values()}, key=lambda name: (name == OURS, name))
    return {name: [preset for preset in presets.values() if preset.document == name] for name in documents}


def experiments(preset: Preset, scale: str) -> list[ExperimentConfig]:
    return [_experiment(repr(config), config) for config in preset.configs(scale)]


def preset_runs(preset: Preset, scale: str, only: str | None = None) -> list[PresetRun]:
    """The runs of a scale, in its order; ``only`` those of one experiment."""
    configs = [config for config in preset.configs(scale) if only in (None, config["name"])]
    return [run for config in configs for run in _preset_runs(repr(config), config)]


@lru_cache(maxsize=2)  # Streamlit's caches take a while to hash so many paths
def _known(files: tuple[tuple[Path, int], ...]) -> dict[str, Preset]:
    return {file.stem: load_preset(file.stem, file.parent) for file, _ in files}


@st.cache_resource(show_spinner=False, max_entries=500)
def _experiment(text: str, _config: dict[str, Any]) -> ExperimentConfig:
    return parse_experiment(_config)


@st.cache_resource(show_spinner=False, max_entries=500)
def _preset_runs(text: str, _config: dict[str, Any]) -> tuple[PresetRun, ...]:
    runs = _experiment(text, _config).runs()
    return tuple(PresetRun(run.name, run.label, run.algorithm.name, run.seed, run.digest) for run in runs)
