"""What a run's configuration asks of the machine is what it gets, whatever the slot has."""

from collections.abc import Iterator

import pytest
import torch

from engine.worker.process import work_on
from storage import Store
from tests.worker.samples import claim, compute, queue


@pytest.fixture(autouse=True)
def one_thread_again() -> Iterator[None]:
    yield
    torch.set_num_threads(1)


def test_threads_are_those_that_the_run_asks_for_and_else_the_slots(store: Store):
    asked, silent = queue(store, threads=3), queue(store)
    for _ in range(2):
        work_on(store, claim(store), threads=2)
    found = {run.id: run.provenance["threads"] for run in store.queue.runs()}
    assert found == {asked[0]: 3, silent[0]: 2}


def test_a_run_that_asks_for_the_cpu_leaves_the_gpu_alone(store: Store, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    run = compute(store, device="cpu")
    assert (run.status, run.provenance["device"]) == ("done", "cpu")


def test_a_run_that_asks_for_an_absent_gpu_says_what_to_do(store: Store, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = compute(store, device="cuda")
    assert run.status == "failed"
    assert "use device: cpu or auto" in run.error
