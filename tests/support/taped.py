"""What a CUDA graph does, on a CPU: the operations of a computation, repeated one by one in the same memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Tape(TorchDispatchMode):
    """The operations that were computed, with their tensors. Numbers of the host are those of the recording."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, result))
        return result

    def play(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, result in self.operations:
                again = func(*args, **kwargs)
                for target, value in zip(tree_leaves(result), tree_leaves(again), strict=True):
                    if isinstance(target, Tensor) and target.data_ptr() != value.data_ptr():
                        target.copy_(value)


class TapeRecorder:
    """A ``Recorder`` that counts. A CPU computes while it records, so the first replay has nothing left to do.

    ``fails_at``: the number of the recording that fails, from 1.
    """

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at
        self.prepared = self.recorded = self.replayed = 0

    def prepare(self, compute: Callable[[], None]) -> None:
        self.prepared += 1
        compute()

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        self.recorded += 1
        if self.recorded == self.fails_at:
            raise RuntimeError("operation not permitted when stream is capturing\nCompile with TORCH_USE_CUDA_DSA")
        tape, is_first = Tape(), True
        with tape:
            compute()

        def replay() -> None:
            nonlocal is_first
            self.replayed += 1
            if not is_first:
                tape.play()
            is_first = False

        return replay

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.prepared, self.recorded, self.replayed
