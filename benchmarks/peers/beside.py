"""The parent's side: starts a process for each library, asks them for rounds in turns, and compares the times."""

import json
import os
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.peers.turns import COUNTED, Job, Turn, load_arrays

ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}


class ChildFailed(Exception):
    """A library's process ended instead of answering."""


@dataclass(frozen=True)
class Program:
    """How a library's process is started."""

    name: str
    command: tuple[str, ...]
    path: str = ""
    in_memory: bool = False

    @classmethod
    def of(cls, module: str, python: str, prefix: Sequence[str] = (), **options: Any) -> "Program":
        """The module of `benchmarks/peers/children/` with this name. ``prefix`` comes before the command."""
        return cls(module, (*prefix, python, "-m", f"benchmarks.peers.children.{module}"), **options)


class Child:
    """A library's process, which has prepared everything."""

    def __init__(self, program: Program, job: Job) -> None:
        self._name = program.name
        job = replace(job, path=program.path, in_memory=program.in_memory)
        self._printed = Path(job.scratch) / "printed.txt"
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)}
        if job.device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        with self._printed.open("w") as printed:
            self._process = subprocess.Popen(
                program.command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                text=True,
            )
        try:
            self._ask(asdict(job))
        except BaseException:
            self.close()
            raise

    def round(self) -> Turn:
        answer = self._ask({"ask": "round"})
        return Turn(answer["seconds"], answer["processor_seconds"], answer["samples"])

    def weights(self, path: Path) -> list[np.ndarray]:
        self._ask({"ask": "weights", "path": str(path)})
        return load_arrays(path)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            last_words = "\n".join(self._printed.read_text().splitlines()[-20:])
            raise ChildFailed(f"{self._name} ended with {self._process.wait()}:\n{last_words}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def children(programs: Sequence[Program], job: Job) -> Iterator[list[Child]]:
    """A child of each program. The first one is ours, and writes the initial weights that the others load."""
    with ExitStack() as stack:
        started = []
        for program in programs:
            scratch = stack.enter_context(TemporaryDirectory(prefix="peers-"))
            child = Child(program, replace(job, scratch=scratch))
            stack.callback(child.close)
            started.append(child)
        yield started


def measure(programs: Sequence[Program], job: Job, repeats: int) -> list[list[Turn]]:
    """For each program its turns, the first of which is the counted one. Every other time the order is reversed."""
    with children(programs, job) as started:
        for _ in range(1, COUNTED):
            for child in started:
                child.round()
        turns = [[child.round()] for child in started]
        for repeat in range(repeats):
            order = range(len(started)) if repeat % 2 else reversed(range(len(started)))
            for place in order:
                turns[place].append(started[place].round())
        return turns


@dataclass(frozen=True)
class Ratio:
    """Their time over ours, turn by turn: above 1 where we are faster."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, theirs: Sequence[Turn], ours: Sequence[Turn], clock: str) -> "Ratio":
        """Of the measured turns, without the counted one."""
        pairs = zip(theirs[1:], ours[1:], strict=True)
        ratios = [getattr(their, clock) / getattr(our, clock) for their, our in pairs]
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        median, low, high = map(_short, (self.median, self.low, self.high))
        return f"{median}x ({low} to {high})"


@dataclass(frozen=True)
class Row:
    """The comparison of one method on one model with one or more variants of a library."""

    method: str
    model: str
    ratios: tuple[Ratio, ...]
    work: float | None  # sample gradients, theirs over ours

    def __str__(self) -> str:
        """A line of the table."""
        work = "-" if self.work is None else f"{self.work:.2f}"
        return _line([self.method, self.model, *map(str, self.ratios), work])


def compare(ours: Program, theirs: Sequence[Program], job: Job, repeats: int, clock: str) -> Row:
    first, *others = measure([ours, *theirs], job, repeats)
    counts = first[0].samples, others[0][0].samples
    work = counts[1] / counts[0] if counts[0] and counts[1] else None
    return Row(job.method, job.model, tuple(Ratio.of(turns, first, clock) for turns in others), work)


def difference(ours: Program, theirs: Program, job: Job, rounds: int = 2) -> tuple[float, float]:
    """After some rounds: the largest difference of a weight between the two, and the largest change of one."""
    with children([ours, theirs], job) as (our, their), TemporaryDirectory(prefix="peers-") as folder:
        initial = load_arrays(Path(job.initial))
        for _ in range(rounds):
            our.round()
            their.round()
        ends = [child.weights(Path(folder) / f"{i}.npz") for i, child in enumerate((our, their))]
    apart = max(float(np.abs(a - b).max()) for a, b in zip(*ends, strict=True))
    moved = max(float(np.abs(a - b).max()) for a, b in zip(ends[0], initial, strict=True))
    return apart, moved


def heading(names: Sequence[str]) -> str:
    """The first two lines of a Markdown table."""
    cells = ["method", "model", *(f"{name} / Fedscape" for name in names), "sample gradients"]
    return f"{_line(cells)}\n{_line(['---'] * len(cells))}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _short(ratio: float) -> str:
    """Two digits or so."""
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
