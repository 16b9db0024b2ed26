"""Reasons for failures of background work, as messages for the user."""

import traceback

import torch

from engine.core.errors import FedscapeError, unexpected
from engine.simulation.memory import FULL_MEMORY, is_out_of_memory
from storage import Store

FULL_GPU = (
    "the GPU is out of memory; set FEDSCAPE_RUNS_PER_GPU=1 so that each run has a GPU to itself, or choose "
    "fewer clients, smaller batches or a smaller model"
)


def reason(store: Store, run_id: int, error: Exception) -> str:
    """The message for an error; of an unexpected one, the traceback goes into the run's log."""
    if isinstance(error, FedscapeError):
        return str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return FULL_GPU
    if is_out_of_memory(error):
        return FULL_MEMORY
    store.events.add(run_id, "error", "traceback", "".join(traceback.format_exception(error)))
    return f"unexpected error: {unexpected(error)}; the run's log has the details"
