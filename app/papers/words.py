"""The name of an experiment in a sentence."""

from collections.abc import Mapping
from typing import Any

from engine.core.registry import DATASETS, MODELS

Config = Mapping[str, Mapping[str, Any]]


def data_and_model(config: Config) -> str:
    """``MNIST MLR``"""
    return f"{DATASETS.short_title(config['dataset']['name'])} {MODELS.short_title(config['model']['name'])}"


def spread(config: Config) -> str:
    """``R = 0.5``: how far the true models are apart."""
    return f"R = {config['dataset']['R']:g}"


def classes(config: Config) -> str:
    """``MNIST MLR, 2 classes``"""
    return f"{data_and_model(config)}, {config['partition']['classes_per_client']} classes"
