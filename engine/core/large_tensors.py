"""Reuses the memory of large tensors on a CPU.

A new tensor of 200 MB needs 50,000 pages, which the system clears and maps one by one; that takes longer than filling
the tensor. ``empty_like`` requests large pages instead. It also reuses the memory of the last large tensor that was
freed, if it had the same size; until then, the system may reclaim that memory.
"""

import ctypes
import math
import mmap
import weakref
from contextlib import suppress

import torch
from torch import Tensor

_LEAST_BYTES = 32 * 2**20  # glibc keeps the memory of smaller ones
_spare: list[mmap.mmap] = []  # at most one


def empty_like(like: Tensor) -> Tensor:
    """A new contiguous tensor with the shape, type and device of ``like``; its numbers are arbitrary."""
    size = math.prod(like.shape) * like.element_size()
    if like.device.type != "cpu" or size < _LEAST_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(like.shape, dtype=like.dtype, device=like.device)
    try:
        memory = _taken(size)
    except OSError:  # torch says that there is too little memory
        return torch.empty(like.shape, dtype=like.dtype)
    block = (ctypes.c_char * size).from_buffer(memory)  # lives as long as the tensor
    weakref.finalize(block, _keep, memory).atexit = False
    return torch.frombuffer(block, dtype=like.dtype).view(like.shape)


def _taken(size: int) -> mmap.mmap:
    with suppress(IndexError):  # none is left, or another thread took it
        spare = _spare.pop()
        if len(spare) == size:
            return spare
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _advise(memory, mmap.MADV_HUGEPAGE)
    return memory


def _keep(memory: mmap.mmap) -> None:
    _advise(memory, mmap.MADV_FREE)
    _spare[:] = [memory]


def _advise(memory: mmap.mmap, advice: int) -> None:
    with suppress(OSError):  # a kernel may be built without either; the memory is right all the same
        memory.madvise(advice)
