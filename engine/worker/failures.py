"""Why work in the background failed, in words for the person who asked for it."""

import errno
import traceback

import torch

from engine.errors import FedscapeError
from storage import Store

FULL_GPU = (
    "the GPU has no memory left for this run; set FEDSCAPE_RUNS_PER_GPU=1 so that it has the GPU to itself, or choose "
    "fewer clients, smaller batches or a smaller model"
)
FULL_MEMORY = (
    "this machine has no memory left for this run; let fewer runs compute at once (FEDSCAPE_SLOTS=1), or choose fewer "
    "clients, smaller batches or a smaller model"
)


def reason(store: Store, run_id: int, error: Exception) -> str:
    """The traceback of what nobody foresaw goes into the run's log only."""
    if isinstance(error, FedscapeError):
        return str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return FULL_GPU
    if is_out_of_memory(error):
        return FULL_MEMORY
    store.events.add(run_id, "error", "traceback", "".join(traceback.format_exception(error)))
    return f"unexpected error: {type(error).__name__}: {error}; the run's log has the details"


def is_out_of_memory(error: Exception) -> bool:
    """Of Python and numpy, of the system, or of torch on the CPU, which has no class of its own for it."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )
