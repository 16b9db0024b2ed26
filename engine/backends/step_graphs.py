"""Local steps replayed as CUDA graphs, for ``cuda_graphs: true``.

A small step takes the host longer to queue than the GPU to compute. Steps of one chunk of clients work in the same
memory, and differ only in their batches. So the first step of each shape runs as usual, which allocates what lasts
(momentum) and loads kernels; the second one is recorded; and from then on the host copies a batch to where the
recording reads it, and starts the recording. No recording outlives its chunk.

A recording repeats operations on tensors only. It may not read a value back, and anything else that a step does on the
host happens only while it is recorded. So a step is recorded only if its caller and its backend say that it is
repeatable.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import torch

from engine.federation.batches import Batch, Plan, Shape

LEAST_STEPS = 4  # of a shape in a chunk, an estimate: recording takes the host about as long as a step


class Recorder(Protocol):
    """Records what a computation does on a device."""

    def prepare(self, compute: Callable[[], None]) -> None:
        """Compute as usual, on the stream used for recording."""

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Return a function that does what ``compute`` does. Raises RuntimeError if it cannot be recorded."""


class CudaRecorder:
    """CUDA graphs on a stream of their own, as PyTorch requires. They share their memory, since one runs at a time.

    ``torch.cuda.graph`` would wait for the GPU and return its cached memory before each recording.
    """

    def __init__(self) -> None:
        self._stream, self._pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self._last: torch.cuda.CUDAGraph | None = None  # keeps the shared memory until the next one is recorded

    def prepare(self, compute: Callable[[], None]) -> None:
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                compute()
        finally:
            current.wait_stream(self._stream)

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._stream):
            graph.capture_begin(self._pool, capture_error_mode="thread_local")  # other threads may use the GPU
            try:
                compute()
                graph.capture_end()
            except BaseException:
                with suppress(RuntimeError):
                    graph.capture_end()
                with suppress(RuntimeError):  # else PyTorch keeps freed memory that two streams have used
                    torch._C._cuda_endAllocateToPool(self._stream.device_index, self._pool)
                raise
            finally:
                self._last = graph
        return graph.replay


class StepGraphs:
    """The recordings of a run. After one has failed, all steps run as usual."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.failure = recorder, ""

    @classmethod
    def on(cls, device: torch.device) -> "StepGraphs | None":
        """None on a CPU."""
        return cls(CudaRecorder()) if device.type == "cuda" else None

    def repeated(self, step: Callable[..., None], plans: Sequence[Plan]) -> "RepeatedStep":
        """``step(*batches)`` of a chunk, to be called with every batch of the plans in turn."""
        return RepeatedStep(self, step, plans)


class RepeatedStep:
    """The step of one chunk, and its recording for each shape of the batches that still come."""

    def __init__(self, graphs: StepGraphs, step: Callable[..., None], plans: Sequence[Plan]) -> None:
        self._graphs, self._step = graphs, step
        self._left = Counter(zip(*(plan.shapes for plan in plans), strict=True))
        self._recordings: dict[tuple[Shape, ...], _Recording | None] = {}

    def __call__(self, *batches: Batch) -> None:
        shapes = tuple(batch.shape for batch in batches)
        self._run(shapes, batches)
        self._left[shapes] -= 1
        if not self._left[shapes]:
            self._recordings.pop(shapes, None)

    def _run(self, shapes: tuple[Shape, ...], batches: tuple[Batch, ...]) -> None:
        if self._graphs.failure:
            self._step(*batches)
        elif shapes not in self._recordings:
            if self._left[shapes] < LEAST_STEPS:
                self._step(*batches)
            else:
                self._graphs.recorder.prepare(lambda: self._step(*batches))
                self._recordings[shapes] = None
        else:
            recording = self._recordings[shapes] or self._record(shapes, batches)
            if recording:
                recording.run(batches)
            else:
                self._step(*batches)

    def _record(self, shapes: tuple[Shape, ...], batches: tuple[Batch, ...]) -> "_Recording | None":
        try:
            recording = _Recording(self._graphs.recorder, self._step, batches)
        except RuntimeError as error:  # also if memory runs out: without recordings, less is needed
            self._graphs.failure = str(error).partition("\n")[0] or type(error).__name__
            self._recordings.clear()
            return None
        self._recordings[shapes] = recording
        return recording


class _Recording:
    """A recorded step, and the batches that it reads."""

    def __init__(self, recorder: Recorder, step: Callable[..., None], batches: tuple[Batch, ...]) -> None:
        self._read, self._copied = tuple(map(_copy_of, batches)), batches
        self._replay = recorder.record(lambda: step(*self._read))

    def run(self, batches: tuple[Batch, ...]) -> None:
        for read, copied, batch in zip(self._read, self._copied, batches, strict=True):
            if batch is not copied:  # with batch_size: full, all are the same
                _copy(read, batch)
        self._copied = batches
        self._replay()


def _copy_of(batch: Batch) -> Batch:
    weight = None if batch.weight is None else batch.weight.clone()
    return replace(batch, x=batch.x.clone(), y=batch.y.clone(), weight=weight, rows=None, sampling=None)


def _copy(target: Batch, source: Batch) -> None:
    target.x.copy_(source.x)
    target.y.copy_(source.y)
    if target.weight is not None and source.weight is not None:
        target.weight.copy_(source.weight)
