"""How many runs this machine computes at once, and what each of them gets."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.core.environment import whole_number
from engine.core.errors import InvalidConfig

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
    and threads that wait for one another on a contended machine are slower than one alone. With GPUs every slot has a
    share of one (FEDSCAPE_RUNS_PER_GPU); more slots than shares are refused, as by chance some runs of a comparison
    would be computed on the CPU.
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
    return [Slot(threads, _gpu(i, gpus)) for i in range(slots)]


def analysis_slot(num_runs: int) -> Slot:
    """What analyses get beside ``num_runs`` slots of runs, on the GPU whose turn it would be."""
    return Slot(1, _gpu(num_runs, num_gpus()))


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


def _gpu(index: int, gpus: int) -> int | None:
    return index % gpus if gpus else None


def _too_many(slots: int, gpus: int, shares: int) -> str:
    each, computing = shares // gpus, "1 GPU computes" if gpus == 1 else f"{gpus} GPUs compute"
    return (
        f"FEDSCAPE_SLOTS: {slots} runs at once, but {computing} {shares} ({each} each); set FEDSCAPE_SLOTS to "
        f"{shares} or less, or FEDSCAPE_RUNS_PER_GPU to more than {each}"
    )
