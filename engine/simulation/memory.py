"""Estimates the memory that a run needs, and reports when it ran out."""

import errno
import os
import resource
from pathlib import Path

import torch

from engine.config.schema import RunConfig
from engine.core.registry import Options
from engine.federation.batches import num_local_steps
from engine.federation.clients import Federation
from engine.models import num_parameters
from engine.training.hypernetwork import HypernetworkOptions

FULL_MEMORY = (
    "out of memory; run fewer at once (FEDSCAPE_SLOTS=1), or choose fewer clients, smaller batches or a smaller model"
)
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # container limits
_PLANNED = ("finetune_steps", "head_steps", "adapt_steps", "personal_steps", "lp_steps", "ft_steps")  # drawn in advance
_ROW_BYTES, _STEP_BYTES = 8, 16  # per batch: the row of each sample; the count of each client, as tensor and as list


def needed_bytes(run: RunConfig, data: Federation) -> tuple[int, int]:
    """A lower bound of a round's memory in bytes, (models, batches).

    Raises Unsupported if the model cannot take the data.
    """
    training, options = run.training, run.algorithm.options
    itemsize = getattr(torch, training.tensor_dtype).itemsize
    model = num_parameters(run.model, data.input_shape, data.num_classes) * itemsize
    cohort = max(1, round(run.sampled_share * data.num_clients))
    largest = int(data.train.sizes.max())
    local = num_local_steps(largest, training.batch_size, training.local_steps, training.local_epochs)
    steps = max(local, *(whole_number(options, name) for name in _PLANNED))
    copies = cohort + whole_number(options, "K")
    if isinstance(options, HypernetworkOptions):
        copies += options.hidden  # its output layer has a row per parameter
    if training.batch_size == "full":  # each step has the same rows
        return copies * model, cohort * _ROW_BYTES * largest
    batch = _ROW_BYTES * min(int(training.batch_size), largest) + _STEP_BYTES
    return copies * model, cohort * steps * batch


def whole_number(options: Options, name: str) -> int:
    """An option of a method; 0 if the method lacks it, or if it is not a whole number, such as "auto"."""
    value = getattr(options, name, 0)
    return value if isinstance(value, int) else 0


def memory_bytes(device: torch.device) -> int:
    """The total memory in bytes: of a GPU; or of the machine, limited by process and container."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    sizes += [int(text) for path in _LIMITS if path.is_file() and (text := path.read_text().strip()).isdigit()]
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(sizes if limit == resource.RLIM_INFINITY else [*sizes, limit])


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out: in Python and numpy, the system, or torch on the CPU, which has no error class for it."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )
