"""How slots divide the machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.errors import InvalidConfig
from engine.worker import slots
from engine.worker.slots import Slot, analysis_slot, plan_slots

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(slots, "num_cores", lambda: 2)
    monkeypatch.setattr(slots, "num_gpus", lambda: 0)
    for name in ("SLOTS", "THREADS", "RUNS_PER_GPU"):
        monkeypatch.delenv(f"FEDSCAPE_{name}", raising=False)


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(slots, "num_gpus", lambda: 2)
    monkeypatch.setattr(slots, "num_cores", lambda: 16)


def test_by_default_every_core_is_a_slot_with_one_thread():
    assert plan_slots() == [Slot(1), Slot(1)]


def test_a_single_slot_gets_all_cores():
    assert plan_slots(slots=1) == [Slot(2)]


def test_more_threads_mean_fewer_slots():
    assert plan_slots(threads=2) == [Slot(2)]


def test_two_runs_share_a_gpu(two_gpus):
    assert plan_slots() == [Slot(4, 0), Slot(4, 1), Slot(4, 0), Slot(4, 1)]


def test_the_number_of_runs_per_gpu_can_be_set(two_gpus, monkeypatch):
    monkeypatch.setenv("FEDSCAPE_RUNS_PER_GPU", "3")
    assert [slot.gpu for slot in plan_slots()] == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("per_gpu", [1, 2, 5])
@pytest.mark.parametrize("slots", range(1, 11))
def test_no_gpu_gets_more_runs_than_its_share(two_gpus, monkeypatch, per_gpu, slots):
    monkeypatch.setenv("FEDSCAPE_RUNS_PER_GPU", str(per_gpu))
    if slots > 2 * per_gpu:
        with pytest.raises(InvalidConfig, match=rf"{slots} exceeds the {2 * per_gpu} shares of 2 GPUs"):
            plan_slots(slots)
    else:
        gpus = [slot.gpu for slot in plan_slots(slots)]
        assert len(gpus) == slots
        assert max(gpus.count(0), gpus.count(1)) <= min(per_gpu, (slots + 1) // 2)


def test_more_slots_than_gpu_shares_are_refused_with_advice(monkeypatch):
    monkeypatch.setattr(slots, "num_gpus", lambda: 1)
    monkeypatch.setenv("FEDSCAPE_SLOTS", "3")
    with pytest.raises(
        InvalidConfig, match=r"the 2 shares of 1 GPU .* FEDSCAPE_SLOTS to 2 or less, or FEDSCAPE_RUNS_PER_GPU"
    ):
        plan_slots()


def test_runs_per_gpu_have_no_effect_without_a_gpu(monkeypatch):
    monkeypatch.setenv("FEDSCAPE_RUNS_PER_GPU", "1")
    assert plan_slots(slots=3) == [Slot(1)] * 3


def test_analyses_use_one_thread_and_the_next_gpu(two_gpus, monkeypatch):
    assert [analysis_slot(runs) for runs in (1, 4)] == [Slot(1, 1), Slot(1, 0)]
    monkeypatch.setattr(slots, "num_gpus", lambda: 0)
    assert analysis_slot(2) == Slot(1)


def test_the_environment_overrides_the_defaults(monkeypatch):
    monkeypatch.setenv("FEDSCAPE_SLOTS", "3")
    monkeypatch.setenv("FEDSCAPE_THREADS", "4")
    assert plan_slots() == [Slot(4)] * 3


def test_workers_yield_to_pages_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv("FEDSCAPE_NICE")
    assert {slot.nice for slot in [*plan_slots(slots=2), analysis_slot(2)]} == {10}
    monkeypatch.setenv("FEDSCAPE_NICE", "3")
    assert {slot.nice for slot in [*plan_slots(slots=2), analysis_slot(2)]} == {3}


@pytest.mark.parametrize("text", ["-1", "20", "low"])
def test_an_invalid_niceness_is_refused(monkeypatch, text):
    monkeypatch.setenv("FEDSCAPE_NICE", text)
    with pytest.raises(InvalidConfig, match=r"FEDSCAPE_NICE: .* whole number from 0 to 19"):
        plan_slots()


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_an_invalid_number_of_slots_is_refused(monkeypatch, text):
    monkeypatch.setenv("FEDSCAPE_SLOTS", text)
    with pytest.raises(InvalidConfig, match=r"FEDSCAPE_SLOTS: .* whole number of at least 1"):
        plan_slots()


@pytest.mark.slow
def test_the_dispatcher_does_not_import_torch():
    command = "import sys, engine.worker; engine.worker.LocalExecutor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=False).returncode == 0
