"""The automatic name of an experiment, from its methods and data."""

from collections.abc import Mapping
from typing import Any

from app import wording
from engine.core.registry import ALGORITHMS, DATASETS


def automatic_name(config: Mapping[str, Any]) -> str:
    """``FedAvg and Ditto on Digits``."""
    names = [entry["name"] for entry in config["algorithms"]]
    titles = [ALGORITHMS.get(name).title if name in ALGORITHMS else name for name in names]
    dataset = config["dataset"]["name"]
    return f"{wording.names(titles, 3) if titles else 'nothing'} on {DATASETS.short_title(dataset)}"


def unnamed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without its name, so that Set up names it automatically."""
    return {key: value for key, value in config.items() if key != "name"}
