"""With CUDA graphs a GPU computes what it computes without, never waits, and keeps no memory of past recordings."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine.backends.fused import Fused
from engine.backends.step_graphs import CudaRecorder
from engine.core.devices import sent
from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS
from engine.simulation.simulate import Simulation
from tests.gpu.test_reads import waiting_is_an_error
from tests.support.builders import FEWER
from tests.support.on_devices import MODELS, assert_same_models, assert_same_round, simulation

pytestmark = pytest.mark.slow

STEPS = 10
FIVE = ("fedavg", "pfedme", "fedrep", "pfedhn", "plgu_grep")
OPTIONS = ({"momentum": 0.9}, {"clip_norm": 0.1}, {"batch_size": "full"}, {"local_steps": None, "local_epochs": 6})
CASES = [
    *(pytest.param("cpu", name, model) for name, model in (("fedavg", "mlr"), ("fedrep", "mlr"), ("pfedme", "dnn"))),
    *(pytest.param("cuda", name, model, marks=pytest.mark.gpu) for name in ALGORITHMS.names() for model in MODELS),
]


def repeating(method: dict[str, Any] | str, model: str, device: str, **changed: Any) -> Simulation:
    return simulation(method, model, device, cuda_graphs=True, **{"local_steps": STEPS} | changed)


def ordinary(method: dict[str, Any] | str, model: str, device: str, **changed: Any) -> Simulation:
    return simulation(method, model, device, **{"local_steps": STEPS} | changed)


def assert_same_run(found: Simulation, expected: Simulation) -> None:
    for ours, theirs in zip(found.rounds(), expected.rounds(), strict=True):
        assert_same_round(ours, theirs)
    assert_same_models(found, expected)


def nothing_failed(run: Simulation) -> bool:
    return not any("cuda_graphs" in note for note in run.task.notes)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """The recordings that were made."""
    made: list[Callable[[], None]] = []
    record = CudaRecorder.record

    def counting(self: CudaRecorder, compute: Callable[[], None]) -> Callable[[], None]:
        made.append(compute)
        return record(self, compute)

    monkeypatch.setattr(CudaRecorder, "record", counting)
    return made


@pytest.mark.parametrize(("device", "name", "model"), CASES)
def test_rounds_are_the_same(device: str, name: str, model: str) -> None:
    method = {"name": name} | FEWER.get(name, {})
    try:
        expected = ordinary(method, model, device)
    except Unsupported:
        with pytest.raises(Unsupported):
            repeating(method, model, device)
        return
    found = repeating(method, model, device)
    assert_same_run(found, expected)
    assert nothing_failed(found)


@pytest.mark.parametrize(
    ("device", "name", "training"),
    [
        ("cpu", "ditto", {"local_steps": None, "local_epochs": 6}),
        *(
            pytest.param("cuda", name, training, marks=pytest.mark.gpu)
            for name in ("fedavg", "pfedme", "ditto")
            for training in OPTIONS
        ),
    ],
    ids=str,
)
def test_training_options_mean_the_same(
    device: str,
    name: str,
    training: dict[str, Any],
    recorded: list[Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 2)
    changed = {"participation": 1.0, "rounds": 2} | training
    found = repeating(name, "dnn", device, **changed)
    assert_same_run(found, ordinary(name, "dnn", device, **changed))
    assert nothing_failed(found) and bool(recorded) == (device == "cuda")


@pytest.mark.parametrize("reads", ["a value", "memory of the host"])
def test_a_step_that_cannot_be_recorded_is_computed(device: str, reads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    accumulate = Fused.accumulate

    def reading(self: Fused, out: Any, params: Any, batch: Any, *args: Any) -> Any:
        losses = accumulate(self, out, params, batch, *args)
        one = float(losses.sum() != -1) if reads == "a value" else sent([1.0], losses.device, losses.dtype)
        return losses * one

    expected = ordinary("fedavg", "dnn", device, rounds=2)
    results = list(expected.rounds())
    monkeypatch.setattr(Fused, "accumulate", reading)
    found = repeating("fedavg", "dnn", device, rounds=2)
    for ours, theirs in zip(found.rounds(), results, strict=True):
        assert_same_round(ours, theirs)
    assert_same_models(found, expected)
    assert nothing_failed(found) == (device == "cpu")
    if device == "cuda":
        assert memory_comes_back()


def memory_comes_back() -> bool:
    """Whether PyTorch reuses freed memory that two streams have used."""
    other, before = torch.cuda.Stream(), torch.cuda.memory_reserved()
    for _ in range(50):
        torch.empty(2**26, dtype=torch.uint8, device="cuda").record_stream(other)
        torch.cuda.synchronize()
    return torch.cuda.memory_reserved() < before + 10 * 2**26


@pytest.mark.gpu
@pytest.mark.parametrize("name", FIVE)
def test_a_round_never_waits_for_the_gpu(name: str) -> None:
    run = repeating(name, "dnn", "cuda")
    state, _ = run.algorithm.round(run.state, run.task.cohort(1), run.task)  # compiles kernels, reads what is read once
    with waiting_is_an_error():
        run.algorithm.round(state, run.task.cohort(2), run.task)


@pytest.mark.gpu
def test_memory_does_not_grow_with_the_recordings(recorded: list[Callable[[], None]]) -> None:
    run = repeating("fedavg", "cnn", "cuda", rounds=12)
    reserved = [torch.cuda.memory_reserved() for _ in run.rounds()]
    assert len(recorded) >= 12 and nothing_failed(run)
    assert reserved[12] == reserved[4]
