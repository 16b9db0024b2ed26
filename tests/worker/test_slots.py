"""How the machine is shared out."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import InvalidConfig
from engine.worker import slots
from engine.worker.slots import Slot, plan_slots

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(slots, "num_cores", lambda: 2)
    monkeypatch.setattr(slots, "num_gpus", lambda: 0)
    monkeypatch.delenv("FEDSCAPE_SLOTS", raising=False)
    monkeypatch.delenv("FEDSCAPE_THREADS", raising=False)


def test_every_core_is_a_slot_of_one_thread():
    assert plan_slots() == [Slot(1), Slot(1)]


def test_one_slot_gets_all_cores():
    assert plan_slots(slots=1) == [Slot(2)]


def test_more_threads_are_fewer_slots():
    assert plan_slots(threads=2) == [Slot(2)]


def test_two_runs_share_a_gpu(monkeypatch):
    monkeypatch.setattr(slots, "num_gpus", lambda: 2)
    assert [slot.gpu for slot in plan_slots()] == [0, 1, 0, 1]


def test_the_environment_decides(monkeypatch):
    monkeypatch.setenv("FEDSCAPE_SLOTS", "3")
    monkeypatch.setenv("FEDSCAPE_THREADS", "4")
    assert plan_slots() == [Slot(4)] * 3


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_number_of_slots_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("FEDSCAPE_SLOTS", text)
    with pytest.raises(InvalidConfig, match=r"FEDSCAPE_SLOTS: .* whole number from 1 on"):
        plan_slots()


def test_the_dispatcher_does_not_wait_for_torch():
    command = "import sys, engine.worker; engine.worker.LocalExecutor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=False).returncode == 0
