"""The name of an experiment in a sentence."""

from engine.core.registry import DATASETS, MODELS
from storage import RunRecord


def data_and_model(run: RunRecord) -> str:
    """``MNIST MLR``"""
    return f"{DATASETS.short_title(run.config['dataset']['name'])} {MODELS.short_title(run.config['model']['name'])}"


def spread(run: RunRecord) -> str:
    """``R = 0.5``: how far the true models are apart."""
    return f"R = {run.config['dataset']['R']:g}"


def classes(run: RunRecord) -> str:
    """``MNIST MLR, 2 classes``"""
    return f"{data_and_model(run)}, {run.config['partition']['classes_per_client']} classes"
