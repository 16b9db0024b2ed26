"""Tiny federations and runs for tests of the engine."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation

SIZES = (6, 9, 4, 7)
NEWCOMERS = (5, 8, 6)
PUBLIC = 7  # samples without labels
LR = 0.1
FEWER = {"fedprox_onestage": {"estimate_steps": 20}}  # of 200, for a method that is given by its name alone


def federation(
    sizes: tuple[int, ...] = SIZES,
    classes: int = 3,
    features: int = 5,
    dtype: torch.dtype = torch.float64,
    seed: int = 1,
    shape: tuple[int, ...] | None = None,
    device: str = "cpu",
) -> Federation:
    """Gaussian features, labels from a different linear rule for each client, and 3 test samples per client.

    The public samples are the same for all sizes and seeds. ``shape``: of a sample, if it is not a vector.
    """
    rng = np.random.default_rng(seed)
    x, y, train, test, start = [], [], [], [], 0
    for size in sizes:
        own = rng.normal(size=(size + 3, features))
        x.append(own)
        y.append((own @ rng.normal(size=(features, classes))).argmax(1))
        train.append(np.arange(start, start + size))
        test.append(np.arange(start + size, start + size + 3))
        start += size + 3
    x.append(np.random.default_rng(11).normal(size=(PUBLIC, features)))
    y.append(np.full(PUBLIC, -1))  # an error where it is used
    samples = np.concatenate(x).reshape(-1, *(shape or (features,)))
    pool = Pool(samples, np.concatenate(y).astype(np.int64), classes)
    empty = tuple(np.zeros(0, np.int64) for _ in sizes)
    partition = Partition(tuple(train), empty, tuple(test), None, public=np.arange(start, start + PUBLIC))
    return lay_out(pool, partition, dtype, torch.device(device))


def with_newcomers() -> Federation:
    """The federation with three clients that never train."""
    return replace(federation(), unseen=federation(NEWCOMERS, seed=7))


def config(algorithm: dict[str, Any] | str, *, model: dict[str, Any] | str = "mlr", **changed: Any) -> RunConfig:
    """A run in double precision; data is passed to the simulation. Sets machine and training keys by name."""
    training = {"rounds": 2, "local_steps": 3, "batch_size": 4, "lr": LR, "dtype": "float64"}
    training |= {k: v for k, v in changed.items() if k not in ("backend", "device", "cuda_graphs", "seed")}
    if training.get("local_epochs"):
        training.pop("local_steps")
    if isinstance(algorithm, str):
        algorithm = {"name": algorithm} | FEWER.get(algorithm, {})
    raw = {
        "dataset": "digits",
        "partition": "iid",
        "model": model,
        "training": training,
        "algorithms": [algorithm],
        "backend": changed.get("backend", "auto"),
        "device": changed.get("device", "cpu"),
        "cuda_graphs": changed.get("cuda_graphs", False),
        "seeds": [changed.get("seed", 0)],
    }
    return parse_experiment(raw).runs()[0]


def supports(algorithm: dict[str, Any] | str, model: dict[str, Any] | str) -> bool:
    """Whether the method can train this model."""
    choice = {"name": algorithm} | FEWER.get(algorithm, {}) if isinstance(algorithm, str) else algorithm
    return _supports(ALGORITHMS.get(choice["name"]).make, json.dumps(choice), json.dumps(model))


@cache
def _supports(method: type, algorithm: str, model: str) -> bool:
    """``method`` is the class, since a plugin of another test may have the same name."""
    try:
        simulation(json.loads(algorithm), model=json.loads(model))
    except Unsupported:
        return False
    return True


def simulation(algorithm: dict[str, Any] | str, data: Federation | None = None, **changed: Any) -> Simulation:
    return Simulation(config(algorithm, **changed), data=data or federation())


def unchecked_simulation(
    algorithm: dict[str, Any] | str, data: Federation | None = None, *, training: dict[str, float], **changed: Any
) -> Simulation:
    """A simulation whose training options are outside the valid range."""
    run = config(algorithm, **changed)
    extreme = replace(run, training=run.training.model_copy(update=training))
    return Simulation(extreme, data=data or federation())


def trained(algorithm: dict[str, Any] | str, data: Federation | None = None, **changed: Any) -> Simulation:
    """A simulation after its last round."""
    run = simulation(algorithm, data, **changed)
    for _ in run.rounds():
        pass
    return run


def personalized(run: Simulation) -> dict[str, torch.Tensor]:
    """The stacked personalized models [N, ...]."""
    predictor = run.algorithm.personalized(run.state, run.task)
    if predictor.is_per_client:
        return dict(predictor.params)
    return {n: p.expand(run.task.num_clients, *p.shape) for n, p in predictor.params.items()}


def shared_model(run: Simulation) -> dict[str, torch.Tensor]:
    predictor = run.algorithm.global_model(run.state, run.task)
    assert predictor is not None
    return dict(predictor.params)


def assert_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    """Equal bit for bit."""
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def assert_close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], tolerance: float = 1e-9) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")
