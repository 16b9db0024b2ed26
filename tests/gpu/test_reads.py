"""A round reads nothing back from the device, so that the host never waits for it.

Without a GPU, a round runs on PyTorch's device ``meta``, whose tensors have shapes and no values: reading one is an
error. So is an operation that takes a tensor of the host with one of the device: it fails on a GPU, or waits for a
copy. On a GPU, PyTorch reports each call that waits.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.core.registry import ALGORITHMS
from engine.federation.batches import Cohort
from engine.simulation.simulate import Simulation
from engine.task import Task
from tests.support.builders import SIZES, federation, supports
from tests.support.builders import simulation as on_cpu
from tests.support.on_devices import MODELS, simulation

pytestmark = pytest.mark.slow

READS = {
    "cfl": "the server compares norms of updates with thresholds",
    "cgpfl": "scikit-learn clusters the models on the host",
    "cgpfl_heur": "scikit-learn clusters the models on the host",
    "fedamp": "the server mixes the models of the clients that have uploaded",
    "fedem": "the number of the cohort's training samples, which the losses read in pieces",
    "fedfomo": "the models that a client asks for are chosen on the host",
    "fedala": "which clients take part again, and whose losses have settled",
    "fedas": "which clients take part again and have features to align with",
    "fedpac": "scipy solves the quadratic programs on the host",
    "fedphp": "rounds in which nobody has a past model need no term for it",
    "fedproto": "the bytes depend on how many classes were seen",
    "fl_hc": "scikit-learn clusters the models on the host",
    "ifca": "the number of training samples, which the choice of a model reads in pieces",
    "moon": "rounds in which nobody has a last model need no term for it",
    "pfedfda": "the number of samples, and the losses by which each client chooses its share",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "fedprox_onestage": {"lam": 1.0},  # else the first round estimates it, once
    "fl_hc": {"at_round": 1},
}
NAMES = ALGORITHMS.names()
Reading = (RuntimeError, NotImplementedError)


def with_model(name: str, model: str) -> tuple[dict[str, Any], str]:
    method = {"name": name} | OPTIONS.get(name, {})
    return method, "dnn" if model == "mlr" and not supports(method, model) else model


def without_values(value: Any) -> Any:
    """The same with each tensor on the device ``meta``."""
    if isinstance(value, Tensor):
        return value.to("meta")
    if isinstance(value, dict):
        return {k: without_values(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(without_values, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: without_values(getattr(value, f.name)) for f in fields(value) if f.init})
    return value


def without_values_of(run: Simulation) -> tuple[Any, Cohort, Task]:
    """State, cohort and task of the first round. What is read once in a run is known."""
    task, cohort = run.task, run.task.cohort(1)
    data = without_values(task.data)
    data.__dict__["class_counts"] = task.data.class_counts.to("meta")
    moved = replace(task, data=data, device=torch.device("meta"))
    moved.__dict__["train_sizes"] = task.train_sizes
    return without_values(run.state), without_values(cohort), moved


def loss_without_values(run: Simulation) -> Tensor:
    state, cohort, task = without_values_of(run)
    with OnOneDevice():
        _, diagnostics = run.algorithm.round(state, cohort, task)
    return diagnostics.train_loss


class OnOneDevice(TorchDispatchMode):
    """Raises RuntimeError for an operation on tensors of both the host and ``meta``, other than a copy."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if len({t.device.type for t in tensors}) > 1 and "copy" not in str(func):
            raise RuntimeError(f"{func} takes a tensor of the host and one of meta")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "model"),
    [*((name, "dnn") for name in sorted(set(NAMES) - READS.keys())), ("fedavg", "mlr"), ("pfedhn", "mlr")],
)
def test_a_round_needs_no_values(name: str, model: str) -> None:
    method = {"name": name} | OPTIONS.get(name, {})
    run = on_cpu(method, model=MODELS[model], participation=0.75)
    loss = loss_without_values(run)
    assert loss.is_meta and len(loss) == 3


@pytest.mark.parametrize("name", sorted(READS))
def test_methods_whose_server_decides_by_values_read_them(name: str) -> None:
    method, model = with_model(name, "mlr")
    run = on_cpu(method, model=MODELS[model])
    with pytest.raises(Reading, match=r"(?i)meta"):
        loss_without_values(run)


def test_batches_are_drawn_without_values() -> None:
    run = on_cpu("fedavg", participation=0.75)
    task = without_values_of(run)[2]
    for stream in ("batches", "head"):
        found, expected = task.cohort_of([0, 2], 1, stream), run.task.cohort_of([0, 2], 1, stream)
        assert found.plan.rows.is_meta and found.plan.rows.shape == expected.plan.rows.shape
        assert found.plan.counts == expected.plan.counts and found.client_ids == expected.client_ids


@pytest.mark.parametrize(
    ("training", "backend"),
    [
        ({"momentum": 0.9}, "loop"),
        ({"momentum": 0.9}, "batched"),
        ({"batch_size": "full"}, "fused"),
        *(({"clip_norm": 1.0}, backend) for backend in ("loop", "batched", "fused")),
    ],
    ids=str,
)
def test_no_backend_and_no_option_needs_values(backend: str, training: dict[str, Any]) -> None:
    run = on_cpu("ditto", model=MODELS["dnn"], backend=backend, **training)
    loss = loss_without_values(run)
    assert loss.is_meta and len(loss) == len(SIZES)


def test_a_value_that_is_read_is_noticed() -> None:
    sizes = without_values(federation()).train.sizes
    for read in (lambda: int(sizes.max()), sizes.tolist, lambda: sizes[sizes > 3], lambda: sizes.cpu().numpy()):
        with pytest.raises(Reading, match=r"(?i)meta"):
            read()
    with OnOneDevice():
        sizes.where(sizes > 3, 0).add(1)
        with pytest.raises(RuntimeError, match="one of meta"):
            sizes.add(torch.tensor(1))


@pytest.mark.gpu
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", sorted(set(NAMES) - READS.keys()))
def test_a_round_never_waits_for_the_gpu(name: str, model: str) -> None:
    method, model = with_model(name, model)
    run = simulation(method, model, "cuda")
    state, _ = run.algorithm.round(run.state, run.task.cohort(1), run.task)  # compiles kernels, reads what is read once
    with waiting_is_an_error():
        run.algorithm.round(state, run.task.cohort(2), run.task)


@contextmanager
def waiting_is_an_error() -> Iterator[None]:
    with warnings.catch_warnings(action="ignore"):  # that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
