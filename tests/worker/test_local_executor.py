"""Messages about ended processes, and what a worker releases; test_processes.py has the real processes."""

import re

import pytest
import torch

from engine.worker import process
from engine.worker.local_executor import _exit_text
from engine.worker.slots import Slot
from storage import StorageError
from tests.worker.samples import claim, queue


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (-9, r"killed by signal 9: most likely out of memory; run fewer at once \(FEDSCAPE_SLOTS=1\)"),
        (-11, r"killed by signal 11 \(Segmentation fault\); see the engine's output"),
        (1, r"ended with exit code 1; see the engine's output"),
        (None, r"stopped responding and was killed"),
    ],
)
def test_the_end_of_a_worker_is_reported_with_advice(exit_code, words):
    assert re.search(words, _exit_text(exit_code))


@pytest.mark.parametrize(("gpu", "emptied"), [(0, 1), (None, 0)])
def test_gpu_memory_is_released_after_each_run(store, monkeypatch, gpu, emptied):
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(1))
    queue(store)
    assert process.answer(claim(store), Slot(1, gpu), timeout_s=1.0) is None
    assert len(calls) == emptied


def test_an_error_that_cannot_be_stored_is_returned_to_the_dispatcher(store, monkeypatch):
    def broken(*_: object) -> None:
        raise StorageError("the file is damaged")

    monkeypatch.setattr(process, "work_on", broken)
    queue(store)
    assert process.answer(claim(store), Slot(1), timeout_s=1.0) == "the file is damaged"
