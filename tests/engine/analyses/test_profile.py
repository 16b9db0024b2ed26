"""The time of each part of a round, with a fake clock and known parts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.analyses import profile
from engine.analyses.profile import CHOOSING, EVALUATION, GATHERING, PARTS, REST, TRAINING, ClockedSimulation, Options
from engine.analyses.support.loaded_run import Subject
from engine.channel.plain_channel import PlainChannel
from engine.core.findings import Findings
from engine.simulation.simulate import Simulation
from tests.support.tiny_runs import TINY, tiny_config, trained


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that only moves when a test moves it."""
    clock = Clock()
    monkeypatch.setattr(profile, "time", clock)
    return clock


def profiled(subject: Subject, **options: Any) -> Findings:
    return profile.Profile(Options(**options)).compute(subject)


def slowed(clock: Clock, monkeypatch: pytest.MonkeyPatch, kind: type, method: str, seconds: float) -> None:
    """Makes every call of the method take ``seconds``."""
    original = getattr(kind, method)

    def slow(*args: Any, **kwargs: Any) -> Any:
        clock.now += seconds
        return original(*args, **kwargs)

    monkeypatch.setattr(kind, method, slow)


@pytest.mark.parametrize("backend", ["fused", "loop"])
def test_each_part_takes_its_known_time(clock: Clock, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    config = tiny_config(backend=backend, evaluation={"every": 2})
    subject, _ = trained(config)
    slowed(clock, monkeypatch, Simulation, "_evaluate", 10.0)
    slowed(clock, monkeypatch, profile.Task, "_plan", 0.5)
    slowed(clock, monkeypatch, type(subject.task.data.train), "pool_features", 0.25)
    slowed(clock, monkeypatch, type(subject.algorithm), "round", 3.0)

    def step(share: float) -> None:  # the tick of a local step
        clock.now += 1.0

    found = profiled(replace(subject, progress=step), rounds=4)
    passes = 1 if backend == "fused" else 2  # the loop trains its two participants sequentially
    expected = {CHOOSING: 0.5, GATHERING: 0.5 * passes, TRAINING: 2.0 * passes, REST: 3.0}
    for part, seconds in expected.items():
        assert found.arrays[f"seconds.{part}"].tolist() == [seconds] * 4, part
    assert (found.arrays[f"seconds.{EVALUATION}"] >= 10.0).tolist() == [False, True, False, True]
    gradients = [result.scalars["gradient_evaluations"] for result in Simulation(config).rounds()][1:5]
    np.testing.assert_allclose(found.arrays["samples_per_second"] * sum(expected.values()), gradients)
    assert found.arrays["rounds"].tolist() == [1, 2, 3, 4]
    assert found.values["parts"] == list(PARTS)
    assert found.values["evaluation_every"] == 2


def test_newcomers_count_as_evaluation_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, _ = trained(tiny_config())
    slowed(clock, monkeypatch, Simulation, "_measure_unseen", 10.0)
    slowed(clock, monkeypatch, type(subject.algorithm), "round", 3.0)
    found = profiled(subject, rounds=4)
    assert found.arrays[f"seconds.{EVALUATION}"].tolist() == [0, 0, 0, 10]
    assert found.arrays[f"seconds.{REST}"].tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("method", ["ifca", "fedem", "fedmd", "per_fedavg"])
def test_batches_of_any_kind_count_as_local_training_and_only_local_steps_as_profiled(method: str) -> None:
    public = {"partition": TINY["partition"] | {"public_fraction": 0.2}} if method == "fedmd" else {}
    found = profiled(trained(tiny_config(algorithms=[{"name": method}], **public))[0], rounds=2)
    assert min(found.arrays[f"seconds.{TRAINING}"]) > 0 and min(found.arrays[f"seconds.{GATHERING}"]) > 0
    if method != "fedmd":  # whose steps are on public data
        assert found.values["profiled_steps"] == 2


@pytest.mark.parametrize("dials", [{}, {"attack": {"name": "labels", "how": "reverse", "share": 0.5}}])
def test_profiling_does_not_change_results(dials: dict[str, Any]) -> None:
    config = tiny_config(algorithms=[{"name": "fedrep"}], model={"name": "dnn", "hidden": 8}, **dials)
    subject, _ = trained(config)
    for plain, clocked in zip(Simulation(config).rounds(), ClockedSimulation(subject).rounds(), strict=True):
        for name, values in plain.arrays.items():
            np.testing.assert_array_equal(clocked.arrays[name], values)


def test_operators_of_a_round_are_sorted_by_time() -> None:
    found = profiled(trained(tiny_config())[0], rounds=1)
    operators = found.values["operators"]
    assert 0 < len(operators) <= 12
    costs = [operator["self_ms"] for operator in operators]
    assert costs == sorted(costs, reverse=True)
    assert all(operator["name"] and operator["calls"] > 0 for operator in operators)
    assert found.values["profiled_steps"] == 2


@pytest.mark.parametrize(
    "dials",
    [
        {"privacy": {"unit": "sample", "clip": 1.0, "noise": 1.0}},
        {"system": {"compute_s": 0.01}},
        {"aggregator": "median", "compression": "top_k"},
    ],
)
@pytest.mark.slow
def test_the_profiled_round_is_one_like_the_timed_ones(monkeypatch: pytest.MonkeyPatch, dials: dict[str, Any]) -> None:
    subject, _ = trained(tiny_config(**dials))
    original, seen = type(subject.algorithm).round, []

    def round_of(self: Any, state: Any, cohort: Any, task: Any) -> Any:
        seen.append((type(task.backend), type(task.channel), task.draws_samples))
        return original(self, state, cohort, task)

    monkeypatch.setattr(type(subject.algorithm), "round", round_of)
    profiled(subject, rounds=1)
    timed, again = seen
    assert again == timed != (type(subject.task.backend), PlainChannel, False)


def test_the_profiler_records_the_beginning_of_a_long_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "PROFILED_STEPS", 1)
    assert profiled(trained(tiny_config())[0], rounds=1).values["profiled_steps"] == 1


def test_the_profile_has_no_more_rounds_than_the_run() -> None:
    assert profiled(trained(tiny_config())[0], rounds=50).arrays["rounds"].tolist() == [1, 2, 3, 4]
