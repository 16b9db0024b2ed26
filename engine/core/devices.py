"""The CPU or GPU of a run: its threads, its precision, its free memory, and small tensors sent to it.

Kernels of a GPU are queued. What reads a value back waits until the queue is empty, and so does an ordinary copy to it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor


def sent(values: Sequence[float] | np.ndarray, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers of the host as a tensor on ``device``, without waiting for the device."""
    if device.type != "cuda":
        return torch.tensor(values, dtype=dtype, device=device)
    if torch.cuda.is_current_stream_capturing():  # the graph would read this memory again, after others have used it
        raise RuntimeError("a step that a CUDA graph replays cannot send numbers from the host")
    return torch.tensor(values, dtype=dtype).pin_memory().to(device, non_blocking=True)


def set_threads(count: int) -> None:
    """Sets the threads of PyTorch and of the BLAS libraries that come with NumPy and SciPy."""
    torch.set_num_threads(count)
    threadpool_limits(count, user_api="blas")


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """``set_threads`` for a while. Of several Python threads, threadpoolctl lets the first one decide about BLAS."""
    before = torch.get_num_threads()
    with threadpool_limits(count, user_api="blas"):
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def allow_tf32(is_allowed: bool) -> None:
    """Whether a GPU rounds the inputs of float32 products and convolutions to TF32: 10 bits of mantissa instead of 23.

    PyTorch itself does so in convolutions only.
    """
    precision = "tf32" if is_allowed else "ieee"
    torch.backends.cudnn.conv.fp32_precision = precision  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.fp32_precision = precision


def keep_freed_batches() -> None:
    """Lets glibc reuse the memory of freed batches instead of returning it to the system at each step.

    It returns blocks larger than the largest one freed so far, up to 32 MiB; new pages for each batch take longer than
    the batch. Without effect under other allocators, since the block's pages are never touched.
    """
    torch.empty(32 * 2**20 - 2**16, dtype=torch.uint8)


def free_bytes(device: torch.device) -> int:
    """The memory of a GPU that PyTorch can still allocate, including what it keeps cached."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
