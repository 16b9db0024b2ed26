"""A run's configuration overrides the threads and device of its slot."""

from collections.abc import Iterator

import pytest
import torch

from engine.core.devices import set_threads
from engine.worker.process import work_on
from storage import Store
from tests.support.threads import blas_threads
from tests.worker.samples import claim, compute, queue


@pytest.fixture(autouse=True)
def restore_one_thread() -> Iterator[None]:
    yield
    set_threads(1)


@pytest.mark.slow
def test_threads_are_those_of_the_run_or_else_of_the_slot(store: Store):
    explicit, default = queue(store, threads=3), queue(store)
    of_blas = list[set[int]]()
    for _ in range(2):
        work_on(store, claim(store), threads=2)
        of_blas.append(blas_threads())
    found = {run.id: run.provenance["threads"] for run in store.queue.runs()}
    assert found == {explicit[0]: 3, default[0]: 2}
    assert of_blas == [{3}, {2}]


def test_a_cpu_run_does_not_use_the_gpu(store: Store, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    run = compute(store, device="cpu")
    assert (run.status, run.provenance["device"]) == ("done", "cpu")


def test_a_run_on_an_absent_gpu_fails_with_advice(store: Store, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = compute(store, device="cuda")
    assert run.status == "failed"
    assert "use device: cpu or auto" in run.error
