"""Memory for large tensors on a CPU, in pages of 2 MiB where Linux has them.

A new tensor of 200 MB takes 50,000 pages of the usual size, which the system clears and maps one by one, and that takes
longer than to fill it. Large ones take less than half of the time.
"""

import math
import mmap

import torch
from torch import Tensor

_LEAST_BYTES = 32 * 2**20  # smaller tensors often get memory that is mapped already


def empty_like(like: Tensor) -> Tensor:
    """A new contiguous tensor with the shape, type and device of ``like``; its numbers are arbitrary."""
    size = math.prod(like.shape) * like.element_size()
    if like.device.type != "cpu" or size < _LEAST_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(like.shape, dtype=like.dtype, device=like.device)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=like.dtype).view(like.shape)
