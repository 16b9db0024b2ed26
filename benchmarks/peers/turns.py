"""The child's side of the protocol: lines of JSON on standard input and output. Standard library and NumPy only,
and PyTorch if the job is on a GPU.

The first line is the job (`Job`). Then the parent asks for rounds, which are timed, and for the global model's weights.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

COUNTED = 2  # the round in which a child counts its work: the second, which no library spends on preparations


@dataclass(frozen=True)
class Job:
    """What both sides compute. Every client has the same number of samples."""

    method: str  # our name of it
    model: str  # mlr, dnn or cnn
    data: str  # an .npz: x [clients, samples, channels, height, width] uint8, y [clients, samples]
    initial: str  # an .npz of the initial weights, in the order of the layers, which our side writes
    scratch: str  # a folder of the child's own
    clients: int
    samples: int
    cohort: int
    batch_size: int
    lr: float
    local_epochs: int
    num_classes: int = 10
    options: dict[str, Any] = field(default_factory=dict)  # of our method
    path: str = ""  # the library's checkout, where it is not installed
    in_memory: bool = False  # whether a library that rereads its files keeps them
    device: str = "cpu"  # or "cuda"

    @property
    def local_steps(self) -> int:
        return self.local_epochs * (self.samples // self.batch_size)

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        with np.load(self.data) as arrays:
            return arrays["x"], arrays["y"]

    def load_initial(self) -> list[np.ndarray]:
        return load_arrays(Path(self.initial))


@dataclass(frozen=True)
class Turn:
    """A round as a child reports it."""

    seconds: float
    processor_seconds: float
    samples: int | None  # sample gradients, where they were counted


class Turns:
    """The parent's requests. ``next`` is called before each round."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # what a library prints is no answer
        self.job = Job(**json.loads(sys.stdin.readline()))
        self.round = 0
        self.samples: int | None = None  # sample gradients of the round in progress
        self._clocks = 0.0, 0.0

    @property
    def is_counted(self) -> bool:
        return self.round == COUNTED

    def next(self, weights: Callable[[], Sequence[np.ndarray]]) -> None:
        """Reports the round that ends here, and returns when the next one is asked for. Exits after the last one."""
        self._finish()
        now = _clocks()
        taken = [end - begin for begin, end in zip(self._clocks, now, strict=True)]
        if self.round == 0:
            self._answer({"ready": True})
        else:
            self._answer({"seconds": taken[0], "processor_seconds": taken[1], "samples": self.samples})
        self.samples = None
        for line in sys.stdin:
            request = json.loads(line)
            if request["ask"] == "round":
                self.round += 1
                self._clocks = _clocks()
                return
            save_arrays(Path(request["path"]), weights())
            self._answer({"saved": True})
        raise SystemExit

    def _finish(self) -> None:
        """Waits until a GPU has computed the round."""
        if self.job.device == "cuda":
            import torch

            torch.cuda.synchronize()

    def _answer(self, answer: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            self._answers.write(json.dumps(answer) + "\n")


def save_arrays(path: Path, arrays: Sequence[np.ndarray]) -> None:
    np.savez(path, *arrays)


def load_arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as saved:
        return [saved[f"arr_{i}"] for i in range(len(saved.files))]


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
