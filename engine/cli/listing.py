"""Lists what is registered, as JSON and as text."""

import json
from typing import Any

from engine.config.presets import presets
from engine.core.json_values import finite
from engine.core.registry import AGGREGATORS, ALGORITHMS, ATTACKS, COMPRESSORS, DATASETS, METRICS, MODELS, PARTITIONERS

REGISTRIES = {
    "algorithms": ALGORITHMS,
    "datasets": DATASETS,
    "partitioners": PARTITIONERS,
    "models": MODELS,
    "metrics": METRICS,
    "attacks": ATTACKS,
    "aggregators": AGGREGATORS,
    "compressors": COMPRESSORS,
}


def descriptions(kind: str) -> list[dict[str, Any]]:
    """Name, title, paper and parameters of all entries of a kind (``algorithms``, ..., ``presets``)."""
    if kind == "presets":
        return [preset.describe() for preset in presets()]
    return [finite(entry.describe()) for entry in REGISTRIES[kind]]


def as_json(kind: str) -> str:
    return json.dumps(descriptions(kind), indent=1, ensure_ascii=False, allow_nan=False)


def as_text(kind: str) -> str:
    """Two lines per entry: name and title, then options, or the source if there are none."""
    rows = descriptions(kind)
    width = max(len(row["name"]) for row in rows)
    return "\n".join(f"{row['name']:{width}}  {row['title']}\n{'':{width}}    {_options(row)}" for row in rows)


def _options(row: dict[str, Any]) -> str:
    return ", ".join(f"{p['name']}={_in_yaml(p['default'])}" for p in row["parameters"]) or row["paper"]


def _in_yaml(value: Any) -> str:
    """``null`` and ``true``, not Python's None and True."""
    return value if isinstance(value, str) else json.dumps(value)
