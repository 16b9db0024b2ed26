"""Presets: experiments that reproduce a figure or table, files in assets/presets/.

    {name, title, source, scales: {quick: [CONFIG, ...], paper: [CONFIG, ...]},
     document, item, shows, cut, paper, view}

A preset is named like its file. Its experiments have distinct names, which identify their runs in an export. The second
line is optional: the paper and its figure or table, one sentence on what it shows, what ``quick`` leaves out, which
printed number belongs to which run (engine/config/paper_tables.py), and the page that draws the figure.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import paper_tables
from engine.config.files import load_config
from engine.config.paper_tables import Cell, Published
from engine.core.errors import InvalidConfig, UnknownName, shown
from engine.core.paths import ASSETS

FOLDER = ASSETS / "presets"
OURS = "Fedscape"  # the document of presets that are not from a paper
_NEEDED = ("name", "title", "source", "scales")
_TEXTS = ("document", "item", "shows", "cut")


@dataclass(frozen=True)
class View:
    """The page that draws the figure from the preset's runs, and a note on it.

    ``panels`` are the names of the panels that make up the figure.
    """

    page: str
    params: dict[str, str]
    note: str
    panels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """Experiments at one or two scales: ``quick`` (minutes on two cores) and ``paper`` (as published)."""

    name: str
    title: str
    source: str
    scales: dict[str, tuple[dict[str, Any], ...]]
    document: str = OURS
    item: str = ""
    shows: str = ""
    cut: str = ""
    paper: tuple[Published, ...] = ()
    view: View | None = None

    def configs(self, scale: str | None = None) -> tuple[dict[str, Any], ...]:
        """The experiments of a scale, by default the smallest. Raises UnknownName."""
        chosen = scale or next(s for s in ("quick", "paper") if s in self.scales)
        if chosen not in self.scales:
            raise UnknownName(f"scale of preset {self.name}", chosen, self.scales)
        return self.scales[chosen]

    @property
    def is_study(self) -> bool:
        """Whether it is a fair study: one experiment, with ``tune``, at each scale."""
        return all([config.get("tune") is not None for config in configs] == [True] for configs in self.scales.values())

    def cells(self, experiment: str) -> list[Cell]:
        """The printed numbers of an experiment."""
        return [cell for table in self.paper for cell in table.cells(experiment)]

    def describe(self) -> dict[str, Any]:
        """The entry of ``list presets --json``."""
        scales = {scale: [config["name"] for config in configs] for scale, configs in self.scales.items()}
        return {"name": self.name, "title": self.title, "paper": self.source, "parameters": [], "scales": scales}


def preset_names(folder: Path = FOLDER) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def load_preset(name: str, folder: Path = FOLDER) -> Preset:
    """Loads a preset. Raises UnknownName with the nearest name, or InvalidConfig if the file is invalid."""
    if name not in preset_names(folder):
        raise UnknownName("preset", name, preset_names(folder))
    path = folder / f"{name}.yaml"
    raw = load_config(path)
    problems = [f"{key} is missing" for key in _NEEDED if not raw.get(key)] + _text_problems(raw)
    scales: Any = raw.get("scales")
    paper: tuple[Published, ...] = ()
    view = None
    if not isinstance(scales, dict) or not scales or not set(scales) <= {"quick", "paper"}:
        problems.append("scales: must have quick, paper or both, each a list of experiments")
    elif raw.get("name") != name:
        problems.append(f"name: {shown(raw.get('name'))}, must be the name of the file, {name!r}")
    else:
        problems += [p for scale, configs in scales.items() for p in _scale_problems(scale, configs)]
        paper, found = paper_tables.read(raw["paper"]) if "paper" in raw else ((), [])
        problems += found or ([] if problems else _unknown_experiments(paper, scales))
    if "view" in raw:
        view, found = _view(raw["view"])
        problems += found
    if problems:
        raise InvalidConfig([f"{path.name}: {problem}" for problem in problems])
    words = {key: raw[key] for key in _TEXTS if key in raw}
    return Preset(
        name,
        raw["title"],
        raw["source"],
        {scale: tuple(configs) for scale, configs in scales.items()},
        paper=paper,
        view=view,
        **words,
    )


def presets(folder: Path = FOLDER) -> list[Preset]:
    return [load_preset(name, folder) for name in preset_names(folder)]


def _scale_problems(scale: str, configs: Any) -> list[str]:
    if not isinstance(configs, list) or not configs or not all(isinstance(c, dict) for c in configs):
        return [f"scales.{scale}: must be a list of experiments"]
    names = [config.get("name") for config in configs]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return [f"scales.{scale}: each experiment must have its own name"]
    return []


def _text_problems(raw: dict[str, Any]) -> list[str]:
    known = (*_NEEDED, *_TEXTS, "paper", "view")
    unknown = [f"{key}: unknown key; known: {', '.join(known)}" for key in raw if key not in known]
    texts = ("title", "source", *_TEXTS)
    return unknown + [f"{key}: must be a string" for key in texts if not isinstance(raw.get(key, ""), str)]


def _unknown_experiments(paper: tuple[Published, ...], scales: dict[str, Any]) -> list[str]:
    known = {config["name"] for configs in scales.values() for config in configs}
    named = {name for table in paper for name in table.experiments}
    return [f"paper.experiments: {name!r} is not an experiment of this preset" for name in sorted(named - known)]


def _view(raw: Any) -> tuple[View | None, list[str]]:
    if not isinstance(raw, dict) or not isinstance(raw.get("page"), str) or not isinstance(raw.get("note"), str):
        return None, ["view: must have a page and a note, like {page: run, tab: clusters, note: ...}"]
    panels = raw.get("panels", [])
    if not isinstance(panels, list) or not all(isinstance(panel, str) for panel in panels):
        return None, ["view.panels: must be a list of names, like [errors]"]
    params = {str(key): str(value) for key, value in raw.items() if key not in ("page", "note", "panels")}
    return View(raw["page"], params, raw["note"], tuple(panels)), []
