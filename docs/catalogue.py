"""docs/catalogue.md: everything that ships, from the registries and the presets.  ``make docs``"""

from pathlib import Path

from docs.markdown import GENERATED, default_of, table
from engine.config.presets import presets
from engine.config.schema import parse_experiment
from engine.core.registry import (
    AGGREGATORS,
    ALGORITHMS,
    ANALYSES,
    ATTACKS,
    COMPRESSORS,
    DATASETS,
    METRICS,
    MODELS,
    PARTITIONERS,
    Entry,
    Registry,
)

PAGE = Path(__file__).with_name("catalogue.md")
MAX_FILES = 4  # patterns of a data set
SECTIONS = {
    "Algorithms": (
        ALGORITHMS,
        "Set under `algorithms:`. Each has a page in the app's Handbook: the idea, one round in equations, what is "
        "sent, what it costs, and common mistakes.",
    ),
    "Data sets": (
        DATASETS,
        "Set under `dataset:`. Files are read from `DATA_DIR`, by default `data/`. Put those that are not downloaded "
        "there by hand; if one is missing, a message says where to get it.",
    ),
    "Partitioners": (PARTITIONERS, "Set under `partition:`. They decide which samples each client owns."),
    "Models": (MODELS, "Set under `model:`."),
    "Metrics": (METRICS, "Summaries over clients. All of them are recorded in every evaluated round."),
    "Attacks": (ATTACKS, "Set under `attack:`. They decide what malicious clients train on and send."),
    "Aggregators": (AGGREGATORS, "Set under `aggregator:`. They decide how the server combines what it receives."),
    "Compressors": (COMPRESSORS, "Set under `compression:`. They decide what arrives of an update, and its bytes."),
    "Analyses": (ANALYSES, "Computed from the stored models of a finished run, on request in *Inside a run*."),
}


def page() -> str:
    intro = (
        "What ships with Fedscape, with options and defaults. [configuration.md](configuration.md) describes each "
        "option; `python -m engine list KIND` prints the same lists, your plugins included."
    )
    parts = ["# Catalogue", GENERATED, intro, _contents()]
    for title, (registry, text) in SECTIONS.items():
        parts += [f"## {title}", text, entries(registry)]
    return "\n\n".join([*parts, "## Presets", _presets()]) + "\n"


def shipped(registry: Registry) -> list[Entry]:
    """The entries without the author's plugins."""
    return [entry for entry in registry if entry.make.__module__.startswith("engine.")]


def entries(registry: Registry) -> str:
    """Name, title, options with their defaults, source; the family where the registry has families."""
    found = shipped(registry)
    has_families = any(entry.family != "Other" for entry in found)
    found = sorted(found, key=lambda entry: (entry.family, entry.name)) if has_families else found
    has_options = any(entry.parameters for entry in found)
    has_files = registry is DATASETS
    head = ["name", "title", *(["family"] * has_families), *(["options"] * has_options), *(["files"] * has_files)]
    rows = []
    for entry in found:
        options = ", ".join(_option(entry, name) for name in entry.options.model_fields)
        family, cells = [entry.family] * has_families, [options] * has_options
        cells += [_files(entry)] * has_files
        rows.append([f"`{entry.name}`", entry.title, *family, *cells, entry.paper])
    return table([*head, "source"], rows)


def _files(entry: Entry) -> str:
    """What a data set reads from DATA_DIR."""
    if getattr(entry.make, "needs_download", False):
        return "downloaded"
    patterns = getattr(entry.make, "files", ())
    if isinstance(patterns, property):
        return "those of `path`"
    shown = [f"`{pattern}`" for pattern in patterns[:MAX_FILES]]
    return ", ".join([*shown, *(["..."] if len(patterns) > MAX_FILES else [])]) or "none"


def _contents() -> str:
    titles = [*SECTIONS, "Presets"]
    return " · ".join(f"[{title}](#{title.lower().replace(' ', '-')})" for title in titles)


def _option(entry: Entry, name: str) -> str:
    parameter = next(p for p in entry.parameters if p.name == name)
    if parameter.required:
        return f"`{name}`"
    return f"`{name}={default_of(entry.options, parameter).strip('`')}`"


def _presets() -> str:
    text = (
        "Experiments for one figure or table each: `python -m engine run --preset NAME --scale quick|paper`, or one "
        "click in *Set up* and *Papers*. The last columns are the number of runs at each scale."
    )
    rows = [
        [
            f"`{preset.name}`",
            preset.title,
            preset.shows,
            *(str(_runs(preset.scales[scale])) if scale in preset.scales else "–" for scale in ("quick", "paper")),
        ]
        for preset in presets()
    ]
    return f"{text}\n\n{table(['name', 'title', 'what it shows', 'quick', 'paper'], rows)}"


def _runs(configs: tuple[dict, ...]) -> int:
    return sum(len(parse_experiment(config).runs()) for config in configs)
