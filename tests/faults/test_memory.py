"""No memory left: the run says so and what to do, and the worker takes the next one."""

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.simulate import Simulation
from engine.worker.failures import FULL_MEMORY, is_out_of_memory
from storage import Store
from tests.worker.samples import compute, queue

ROOT = Path(__file__).parents[2]
TOO_MUCH = 2**62  # bytes: more than any machine has
IN_LITTLE_MEMORY = """
import resource, sys, torch
from engine.simulate import Simulation
from engine.worker.process import work_on
from storage import Store
from tests.worker.samples import claim
store = Store(sys.argv[1])
work_on(store, claim(store))  # also loads what is loaded late
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
evaluate = Simulation._evaluate
Simulation._evaluate = lambda simulation: (torch.zeros(2**28), evaluate(simulation))[1]
work_on(store, claim(store))
Simulation._evaluate = evaluate
work_on(store, claim(store))
"""


def by_python() -> None:
    raise MemoryError


def by_the_system() -> None:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def by_numpy() -> None:
    np.zeros(TOO_MUCH // 8)


def by_torch() -> None:
    torch.zeros(TOO_MUCH // 8)


@pytest.mark.parametrize("ask", [by_python, by_the_system, by_numpy, by_torch])
def test_whoever_asks_for_too_much_fails_the_run_with_advice(store: Store, monkeypatch, ask):
    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "_evaluate", lambda _: ask())
        run = compute(store)
    assert (run.status, run.error) == ("failed", FULL_MEMORY)
    assert store.events.list(run.id) == []
    assert compute(store).status == "done"


def test_other_errors_of_torch_are_not_taken_for_it():
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_process_that_may_take_little_fails_one_run_and_computes_the_next(store: Store):
    run_ids = queue(store, seeds=[0, 1, 2])
    ended = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, store.url], cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert [store.queue.get(run_id).status for run_id in run_ids] == ["done", "failed", "done"]
    assert store.queue.get(run_ids[1]).error == FULL_MEMORY
