"""Profile of a round: replays the first rounds of a run with timers, and one more under a profiler.

Timing changes no numbers: a run is determined by its configuration and seed.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from engine.algorithms import Algorithm
from engine.analyses import AnalysisOptions
from engine.analyses.support.layouts import Count, Layout, Values
from engine.analyses.support.loaded_run import Subject
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.core.run_json import Name
from engine.federation.batches import Batch, Cohort, Plan
from engine.simulation.simulate import Simulation
from engine.task import Task

CHOOSING, GATHERING, TRAINING = "choosing clients and batches", "gathering batches", "local training"
REST, EVALUATION = "aggregation and the rest", "evaluation"
PARTS = (CHOOSING, GATHERING, TRAINING, REST, EVALUATION)
Seconds = dict[str, float]  # seconds by part
MAX_OPERATORS = 12
PROFILED_STEPS = 200  # limits the profiler's memory in a long round


class Options(AnalysisOptions):
    rounds: int = Field(5, ge=1, le=50, title="Rounds", description="Number of first rounds to repeat.")


@dataclass
class Stopwatch:
    """Assigns the time between two laps to parts; ``now`` switches the current part."""

    device: torch.device
    part: str = REST
    seconds: Seconds = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    since: float = field(default_factory=time.perf_counter)

    def now(self, part: str) -> str:
        """Switches the part and returns the previous one."""
        if self.device.type == "cuda":  # kernels run asynchronously
            torch.cuda.synchronize(self.device)
        at, before = time.perf_counter(), self.part
        self.seconds[before] += at - self.since
        self.since, self.part = at, part
        return before

    def lap(self) -> Seconds:
        """The seconds by part since the last lap."""
        self.now(self.part)
        seconds, self.seconds = self.seconds, dict.fromkeys(PARTS, 0.0)
        return seconds


@dataclass(frozen=True)
class ClockedTask(Task):
    """A task with a stopwatch: local steps are computed between two batches."""

    watch: Stopwatch | None = None

    def steps(self, plans: Sequence[Plan]) -> Iterator[tuple[Batch, ...]]:
        assert self.watch is not None
        before = self.watch.now(GATHERING)
        for batches in super().steps(plans):
            self.watch.now(TRAINING)
            yield batches
            self.watch.now(GATHERING)
        self.watch.now(before)

    def _plan(self, ids: Tensor, clients: Sequence[int], steps: list[int], stream: str, round: int) -> Plan:
        assert self.watch is not None
        before = self.watch.now(CHOOSING)
        plan = super()._plan(ids, clients, steps, stream, round)
        self.watch.now(before)
        return plan

    def cohort(self, round: int) -> Cohort:
        assert self.watch is not None
        before = self.watch.now(CHOOSING)
        cohort = super().cohort(round)
        self.watch.now(before)
        return cohort


class ClockedSimulation(Simulation):
    """The same rounds, with a stopwatch."""

    def __init__(self, subject: Subject) -> None:
        self.share = 0.0
        super().__init__(subject.config, data=subject.task.data, tick=lambda: subject.progress(self.share))
        self.watch = Stopwatch(self.task.device)
        self.task = ClockedTask(**_fields_of(self.task), watch=self.watch)

    def _for_final_models(self) -> tuple[Task, Algorithm]:
        """The task and method without timing, because training of final models counts as evaluation."""
        task, algorithm = super()._for_final_models()
        return Task(**_fields_of(task)), algorithm

    def _evaluate(self) -> dict[str, np.ndarray]:
        before = self.watch.now(EVALUATION)
        arrays = super()._evaluate()
        self.watch.now(before)
        return arrays

    def _measure_unseen(self) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        before = self.watch.now(EVALUATION)
        found = super()._measure_unseen()
        self.watch.now(before)
        return found


class Operator(Values):
    name: Name
    calls: Count
    self_ms: float


class ProfileValues(Values):
    parts: Annotated[list[Name], Field(min_length=1, max_length=20)]
    evaluation_every: Annotated[int, Field(ge=1, lt=2**31)]
    evaluation_seconds: float
    operators: Annotated[list[Operator], Field(max_length=1000)]
    profiled_steps: Count


@ANALYSES.register("profile", title="Profile", paper="Wall clocks, and the profiler of PyTorch")
@dataclass(frozen=True)
class Profile:
    """Arrays, for the R replayed rounds:

    rounds             [R]  1, 2, ...
    seconds.<part>     [R]  wall clock, for each of ``values["parts"]``; the sum is the whole round
    samples_per_second [R]  gradient evaluations per second, without the time for evaluation

    Values: ``parts`` (names), ``evaluation_every`` (other rounds spend no time on evaluation),
    ``evaluation_seconds`` (of the untrained models, before round 1), ``operators`` ([{name, calls, self_ms}]: the 12
    with the largest self CPU time in the next round), ``profiled_steps`` (the local steps measured).
    """

    options: Options

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        return Layout({"rounds": "R", "samples_per_second": "R"}, values=ProfileValues, named=_clocks)

    def compute(self, subject: Subject) -> Findings:
        simulation = ClockedSimulation(subject)
        num_rounds = min(self.options.rounds, subject.config.training.rounds)
        (untrained, *laps), (_, *samples) = _replay(simulation, subject, num_rounds)
        operators, steps = _operators(simulation)
        rounds = np.arange(1, len(laps) + 1)
        seconds = {f"seconds.{part}": np.array([lap[part] for lap in laps]) for part in PARTS}
        trained = sum(seconds.values()) - seconds[f"seconds.{EVALUATION}"]
        values = {
            "parts": list(PARTS),
            "evaluation_every": subject.config.evaluation.every,
            "evaluation_seconds": untrained[EVALUATION],
            "operators": operators,
            "profiled_steps": steps,
        }
        return Findings({"rounds": rounds, "samples_per_second": np.array(samples) / trained} | seconds, values)


def _clocks(found: Findings) -> dict[str, str]:
    return {f"seconds.{part}": "R" for part in found.values["parts"]}


def _replay(simulation: ClockedSimulation, subject: Subject, num_rounds: int) -> tuple[list[Seconds], list[float]]:
    """Seconds by part, and gradient evaluations, of rounds 0 to ``num_rounds``; fewer if the run diverges."""
    laps, samples = [], []
    simulation.watch.lap()
    for result in simulation.rounds():
        laps.append(simulation.watch.lap())
        samples.append(result.scalars["gradient_evaluations"])
        simulation.share = result.round / (num_rounds + 1)
        subject.progress(simulation.share)
        simulation.watch.lap()
        if result.round == num_rounds:
            break
    return laps, samples


class _EnoughSteps(Exception):
    """Raised to stop once the profiler has enough steps."""


@dataclass(frozen=True)
class _CountedTask(Task):
    """Counts its local steps, and raises _EnoughSteps before there are more than PROFILED_STEPS."""

    counted: list[int] = field(default_factory=lambda: [0])

    def steps(self, plans: Sequence[Plan]) -> Iterator[tuple[Batch, ...]]:
        for batches in super().steps(plans):
            if self.counted[0] == PROFILED_STEPS:
                raise _EnoughSteps
            self.counted[0] += 1
            yield batches


def _operators(simulation: ClockedSimulation) -> tuple[list[dict[str, Any]], int]:
    """The most expensive operators of one more round, which is discarded, and its number of profiled steps."""
    prepared, _ = simulation.prepare(simulation.round + 1)
    task = _CountedTask(**_fields_of(prepared))
    cohort = task.cohort(simulation.round + 1)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # silences its messages
    with profile(activities=[ProfilerActivity.CPU]) as profiler, suppress(_EnoughSteps):
        simulation.train(cohort, task)
    found = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)[:MAX_OPERATORS]
    operators = [{"name": e.key, "calls": e.count, "self_ms": e.self_cpu_time_total / 1000} for e in found]
    return operators, task.counted[0]


def _fields_of(task: Task) -> dict[str, Any]:
    return {f.name: getattr(task, f.name) for f in fields(Task)}
