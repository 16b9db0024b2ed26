"""Presets: experiments that lead to a figure or table with one command or one click. Files in assets/presets/.

    {name, title, source, scales: {quick: [CONFIG, ...], paper: [CONFIG, ...]}}

A preset's name is its file's. Its experiments carry different names, which tell their runs apart in an export.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import load_config
from engine.errors import InvalidConfig, UnknownName

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "presets"


@dataclass(frozen=True)
class Preset:
    """Experiments at one or two scales: ``quick`` (minutes on two cores) and ``paper`` (as published)."""

    name: str
    title: str
    source: str
    scales: dict[str, tuple[dict[str, Any], ...]]

    def configs(self, scale: str | None = None) -> tuple[dict[str, Any], ...]:
        """The experiments of a scale, the smallest by default. Raises UnknownName."""
        chosen = scale or next(s for s in ("quick", "paper") if s in self.scales)
        if chosen not in self.scales:
            raise UnknownName(f"scale of preset {self.name}", chosen, self.scales)
        return self.scales[chosen]

    def describe(self) -> dict[str, Any]:
        """As ``list presets --json`` has it."""
        scales = {scale: [config["name"] for config in configs] for scale, configs in self.scales.items()}
        return {"name": self.name, "title": self.title, "paper": self.source, "parameters": [], "scales": scales}


def preset_names(folder: Path = FOLDER) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def load_preset(name: str, folder: Path = FOLDER) -> Preset:
    """Raises UnknownName with the nearest name, or InvalidConfig where the file is no preset."""
    if name not in preset_names(folder):
        raise UnknownName("preset", name, preset_names(folder))
    path = folder / f"{name}.yaml"
    raw = load_config(path)
    problems = [f"{path.name}: {key} is missing" for key in ("name", "title", "source", "scales") if not raw.get(key)]
    scales: Any = raw.get("scales")
    if not isinstance(scales, dict) or not scales or not set(scales) <= {"quick", "paper"}:
        problems.append(f"{path.name}: scales has quick, paper or both, each a list of experiments")
    elif raw.get("name") != name:
        problems.append(f"{path.name}: its name is {raw.get('name')!r}; name it as its file, {name!r}")
    else:
        problems += [p for scale, configs in scales.items() for p in _scale_problems(path, scale, configs)]
    if problems:
        raise InvalidConfig(problems)
    return Preset(name, raw["title"], raw["source"], {scale: tuple(configs) for scale, configs in scales.items()})


def presets(folder: Path = FOLDER) -> list[Preset]:
    return [load_preset(name, folder) for name in preset_names(folder)]


def _scale_problems(path: Path, scale: str, configs: Any) -> list[str]:
    if not isinstance(configs, list) or not configs or not all(isinstance(c, dict) for c in configs):
        return [f"{path.name}: scales.{scale} is a list of experiments"]
    names = [config.get("name") for config in configs]
    if None in names or len(set(names)) < len(names):
        return [f"{path.name}: the experiments of scales.{scale} need names of their own"]
    return []
