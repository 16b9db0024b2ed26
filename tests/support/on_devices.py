"""Tiny runs on a device, and what they must have in common with the reference: a loop over clients on the CPU."""

from typing import Any

import numpy as np
import torch

from engine.core.results import RoundResult
from engine.simulation.simulate import Simulation
from tests.support import builders

MODELS: dict[str, Any] = {
    "mlr": "mlr",
    "dnn": {"name": "dnn", "hidden": 6},
    "cnn": {"name": "cnn", "hidden": 5},
    "resnet": {"name": "resnet18", "width": 4},  # whose convolutions are matrix products on a GPU
}
STACKED = {"mlr": "fused", "dnn": "fused", "cnn": "batched", "resnet": "batched"}  # the backend of each model on a GPU
IMAGE = (1, 16, 16)
EQUAL = 1e-8  # up to rounding in double precision


def simulation(algorithm: dict[str, Any] | str, model: str, device: str, **changed: Any) -> Simulation:
    """A run of four clients, of whom three take part in a round."""
    shape = {"features": 256, "shape": IMAGE} if model in ("cnn", "resnet") else {}
    data = builders.federation(device=device, **shape)
    changed = {"backend": STACKED[model], "participation": 0.75, "rounds": 1} | changed
    return builders.simulation(algorithm, data, model=MODELS[model], device=device, **changed)


def reference(algorithm: dict[str, Any] | str, model: str, **changed: Any) -> Simulation:
    return simulation(algorithm, model, "cpu", **changed | {"backend": "loop"})


def assert_same_models(found: Simulation, expected: Simulation, tolerance: float = EQUAL) -> None:
    ours, theirs = ({n: p.cpu() for n, p in builders.personalized(run).items()} for run in (found, expected))
    builders.assert_close(ours, theirs, tolerance)


def assert_same_round(found: RoundResult, expected: RoundResult, tolerance: float = EQUAL) -> None:
    """Costs and participants are equal exactly, losses and diagnostics up to rounding."""
    assert found.cohort.tolist() == expected.cohort.tolist()
    assert found.diverged is None and expected.diverged is None
    for cost in ("bytes_up", "bytes_down", "gradient_evaluations"):
        assert found.scalars[cost] == expected.scalars[cost], cost
    assert found.arrays.keys() == expected.arrays.keys()
    for name, values in expected.arrays.items():
        np.testing.assert_allclose(found.arrays[name], values, rtol=tolerance, atol=tolerance, err_msg=name)
    if expected.clusters is not None:
        assert found.clusters is not None and found.clusters.tolist() == expected.clusters.tolist()


def all_on(device: str, params: dict[str, torch.Tensor]) -> bool:
    return all(p.device.type == device for p in params.values())
