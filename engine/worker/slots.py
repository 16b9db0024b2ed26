"""How many runs this machine computes at once, and what each of them gets."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InvalidConfig

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, Windows' subsystem
RUNS_PER_GPU = 2  # one run's evaluation and bookkeeping fill the gaps of the other's kernels


@dataclass(frozen=True)
class Slot:
    """One run's share of the machine. ``gpu`` is a device index, None on a machine without."""

    threads: int
    gpu: int | None = None


def plan_slots(slots: int | None = None, threads: int | None = None) -> list[Slot]:
    """``slots`` and ``threads``, else FEDSCAPE_SLOTS and FEDSCAPE_THREADS, else what suits the machine.

    Without a GPU every core is a slot of one thread: many runs side by side finish sooner than one run on many threads,
    and threads that wait for one another on a contended machine are slower than one alone.
    """
    slots, threads = slots or _from_environment("FEDSCAPE_SLOTS"), threads or _from_environment("FEDSCAPE_THREADS")
    cores, gpus = num_cores(), num_gpus()
    if slots is None:
        slots = RUNS_PER_GPU * gpus or max(1, cores // (threads or 1))
    if threads is None:
        threads = max(1, cores // slots)
    return [Slot(threads, i % gpus if gpus else None) for i in range(slots)]


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_gpus() -> int:
    """Where there is no driver, nobody has to wait for torch to say 0."""
    if sys.platform == "linux" and not any(Path(driver).exists() for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def device_name() -> str:
    """How the screen calls what the slots compute on."""
    if not num_gpus():
        return "cpu"
    import torch

    return torch.cuda.get_device_name()


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfig([f"{name}: {text!r}, but a whole number from 1 on is needed; unset it to let us choose"])
    return int(text)
