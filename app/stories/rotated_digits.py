"""Digits rotated by a different angle for each client: the clients of two stories."""

from collections.abc import Mapping
from typing import Any

import numpy as np

ROUNDS = 30


def angles(turn: float, num_clients: int) -> np.ndarray:
    """[N] rotation of each client in degrees: from upright to almost ``turn``."""
    return turn * np.arange(num_clients) / num_clients


def experiment(
    name: str, methods: Mapping[str, str], *, turn: float, num_clients: int, test_fraction: float
) -> dict[str, Any]:
    """``methods`` and their labels, on clients whose images are rotated across ``turn`` degrees."""
    return {
        "name": name,
        "dataset": {"name": "digits"},
        "partition": {
            "name": "feature_shift",
            "kind": "rotation",
            "num_clients": num_clients,
            "num_groups": num_clients,
            "strength": turn / 360,
            "test_fraction": test_fraction,
        },
        "model": {"name": "mlr"},
        "training": {"rounds": ROUNDS, "local_steps": 20, "batch_size": "full", "lr": 0.5},
        "algorithms": [{"name": name, "label": label} for name, label in methods.items()],
        "seeds": [0],
        "device": "cpu",
    }
