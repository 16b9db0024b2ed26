"""Fedscape's engine and its Python API.

    from engine import run, ALGORITHMS
    result = run({"dataset": "digits", "partition": {"name": "iid", "num_clients": 5}, "model": "mlr",
                  "algorithms": ["fedavg", "ditto"]})
    result.summary()

Names are loaded on first use, so a process that only imports ``engine.core.errors`` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.api import Result, run
    from engine.config.files import load_config
    from engine.config.schema import ExperimentConfig, RunConfig, parse_experiment
    from engine.core.errors import FedscapeError, InvalidConfig
    from engine.core.registry import ALGORITHMS, DATASETS, METRICS, MODELS, PARTITIONERS

_MODULES = {
    "core.errors": ("FedscapeError", "InvalidConfig"),
    "core.registry": ("ALGORITHMS", "DATASETS", "METRICS", "MODELS", "PARTITIONERS"),
    "config.files": ("load_config",),
    "config.schema": ("ExperimentConfig", "RunConfig", "parse_experiment"),
    "api": ("Result", "run"),
}

__all__ = [
    "ALGORITHMS",
    "DATASETS",
    "METRICS",
    "MODELS",
    "PARTITIONERS",
    "ExperimentConfig",
    "FedscapeError",
    "InvalidConfig",
    "Result",
    "RunConfig",
    "load_config",
    "parse_experiment",
    "run",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"engine.{module}"), name)
    raise AttributeError(f"module 'engine' has no attribute {name!r}")
