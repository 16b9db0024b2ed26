"""Out of memory: the run fails with advice, and the worker takes the next one."""

import errno
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.simulation.memory import FULL_MEMORY, is_out_of_memory
from engine.simulation.simulate import Simulation
from storage import Store
from tests.worker.samples import compute

STATM = Path("/proc/self/statm")
TOO_MUCH = 2**62  # bytes: more than any machine has


def by_python() -> None:
    raise MemoryError


def by_the_system() -> None:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def by_numpy() -> None:
    np.zeros(TOO_MUCH // 8)


def by_torch() -> None:
    torch.zeros(TOO_MUCH // 8)


def beyond_the_limit() -> None:
    """The kernel refuses the allocation."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(STATM.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, before[1]))
    try:
        torch.zeros(2**27)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


ALLOCATIONS = [by_python, by_the_system, by_numpy, by_torch, *([beyond_the_limit] if STATM.exists() else [])]


@pytest.mark.parametrize("allocate", ALLOCATIONS)
def test_running_out_of_memory_fails_the_run_with_advice(store: Store, monkeypatch, allocate):
    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "_evaluate", lambda _: allocate())
        run = compute(store)
    assert (run.status, run.error) == ("failed", FULL_MEMORY)
    assert store.events.list(run.id) == []
    assert compute(store).status == "done"


def test_other_torch_errors_are_not_reported_as_out_of_memory():
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
