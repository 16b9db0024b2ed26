"""How many runs this machine computes at once, and the resources of each."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.core.environment import whole_number
from engine.core.errors import InvalidConfig

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, WSL
RUNS_PER_GPU = 2  # two runs keep the GPU busier: each fills gaps of the other
NICE, MAX_NICE = 10, 19  # POSIX niceness, so that pages respond while runs train


@dataclass(frozen=True)
class Slot:
    """One run's share of the machine. ``gpu`` is a device index, None without a GPU.

    ``nice`` is how far its process yields to others that want the same cores, from 0 (not at all) to 19.
    """

    threads: int
    gpu: int | None = None
    nice: int = 0


def plan_slots(slots: int | None = None, threads: int | None = None) -> list[Slot]:
    """Plans ``slots`` and ``threads``, else FEDSCAPE_SLOTS and FEDSCAPE_THREADS, else what fits the machine.

    Without a GPU, each core is a slot with one thread: several runs side by side finish sooner than one run on several
    threads, and threads that wait for one another on a busy machine are slower than one. With GPUs, each slot has a
    share of one (FEDSCAPE_RUNS_PER_GPU). More slots than shares raise InvalidConfig: otherwise some runs of a
    comparison would be computed on the CPU.
    """
    slots, threads = slots or whole_number("FEDSCAPE_SLOTS"), threads or whole_number("FEDSCAPE_THREADS")
    cores, gpus = num_cores(), num_gpus()
    shares = gpus * (whole_number("FEDSCAPE_RUNS_PER_GPU") or RUNS_PER_GPU)
    if slots is None:
        slots = shares or max(1, cores // (threads or 1))
    if gpus and slots > shares:
        raise InvalidConfig([_too_many(slots, gpus, shares)])
    if threads is None:
        threads = max(1, cores // slots)
    nice = niceness()
    return [Slot(threads, _gpu(i, gpus), nice) for i in range(slots)]


def analysis_slot(num_runs: int) -> Slot:
    """The slot for analyses, in addition to ``num_runs`` slots for runs, on the next GPU in turn."""
    return Slot(1, _gpu(num_runs, num_gpus()), niceness())


def niceness() -> int:
    """FEDSCAPE_NICE, else 10: idle cores train at full speed, and pages respond first."""
    nice = whole_number("FEDSCAPE_NICE", minimum=0, maximum=MAX_NICE)
    return NICE if nice is None else nice


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_gpus() -> int:
    """The number of GPUs. Without a driver it is 0, and torch need not be imported."""
    if sys.platform == "linux" and not any(Path(driver).exists() for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def device_name() -> str:
    """The device as shown in the app."""
    if not num_gpus():
        return "cpu"
    import torch

    return torch.cuda.get_device_name()


def _gpu(index: int, gpus: int) -> int | None:
    return index % gpus if gpus else None


def _too_many(slots: int, gpus: int, shares: int) -> str:
    each, total = shares // gpus, "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return (
        f"FEDSCAPE_SLOTS: {slots} exceeds the {shares} shares of {total} ({each} each); set FEDSCAPE_SLOTS to "
        f"{shares} or less, or FEDSCAPE_RUNS_PER_GPU to more than {each}"
    )
