"""Chunks of clients that fit the memory: any size gives the same result, and one that does not fit is halved."""

import pytest
import torch

from engine.backends.batched import Batched
from engine.backends.fused import Fused
from engine.core.devices import free_bytes
from engine.training.local import chunk_size
from tests.support.builders import SIZES
from tests.support.on_devices import assert_same_models, assert_same_round, reference, simulation

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", ["dnn", "cnn"])
@pytest.mark.parametrize("size", [1, 2])
def test_the_result_does_not_depend_on_the_chunks(
    device: str, model: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for backend in (Fused, Batched):
        monkeypatch.setattr(backend, "chunk_size", lambda *_: size)
    found, expected = (run("fedrep", model, participation=0.75) for run in (on(device), reference))
    for ours, theirs in zip(found.rounds(), expected.rounds(), strict=True):
        assert_same_round(ours, theirs)
    assert_same_models(found, expected)


def test_a_chunk_that_does_not_fit_is_halved_and_later_ones_start_smaller(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, accumulate = [], Fused.accumulate

    def limited(self, out, params, batch, *args):
        tried.append(batch.size)
        if batch.size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return accumulate(self, out, params, batch, *args)

    found, expected = (run("fedavg", "dnn", participation=1.0, rounds=2) for run in (on(device), reference))
    results = list(expected.rounds())
    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 100)
    monkeypatch.setattr(Fused, "accumulate", limited)
    for ours, theirs in zip(found.rounds(), results, strict=True):
        assert_same_round(ours, theirs)
    assert_same_models(found, expected)
    assert tried.count(len(SIZES)) == 1 and max(tried[1:]) == 2  # once in two rounds
    assert chunk_size(found.task, found.task.cohort(1).plan) == 2


def test_a_single_client_that_does_not_fit_ends_the_run(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    run = simulation("fedavg", "dnn", device)
    monkeypatch.setattr(Fused, "accumulate", full)
    with pytest.raises(torch.OutOfMemoryError):
        list(run.rounds())


@pytest.mark.gpu
def test_memory_that_torch_keeps_cached_is_free() -> None:
    device = torch.device("cuda")
    before = free_bytes(device)
    held = torch.empty(2**26, dtype=torch.uint8, device=device)
    assert free_bytes(device) <= before - 2**26 + 2**21
    del held
    assert abs(free_bytes(device) - before) <= 2**21


def on(device: str):
    return lambda name, model, **changed: simulation(name, model, device, **changed)
