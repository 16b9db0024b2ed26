"""Readers at the same dial position share one training."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from app.data.lru import Lru
from app.data.turns import TURNS
from app.stories import mini_run, shared_run, shared_steps, stories
from app.stories.shared_steps import Run, SharedSteps
from app.stories.story import Place, place_of
from engine.simulation.simulate import Simulation

WAIT_S = 60
ROUNDS, READERS = 40, 8


@dataclass(frozen=True)
class Count:
    round: int
    value: float = 0.0
    is_settled: bool = False


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(READERS) as pool:
        yield pool


@pytest.fixture
def _no_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_run, "_trainings", Lru(shared_run.KEPT))
    monkeypatch.setattr(shared_run, "_warm", Lru(shared_run.KEPT))


def counting(computed: list[int], fail_at: Callable[[int], bool] = lambda _: False) -> Iterator[Count]:
    for round in range(ROUNDS + 1):
        if fail_at(round):
            raise ZeroDivisionError
        computed.append(round)
        yield Count(round)


def test_every_step_is_computed_once_at_any_speed(pool: ThreadPoolExecutor) -> None:
    computed: list[int] = []
    shared, together = SharedSteps(lambda: counting(computed)), threading.Barrier(READERS)

    def read(stride: int) -> list[Count]:
        together.wait(WAIT_S)
        run = Run(shared)
        while run.round < ROUNDS:
            run.advance(stride)
        return run.steps

    readers = [pool.submit(read, stride) for stride in range(1, READERS + 1)]
    assert all(reader.result(WAIT_S) == [Count(round) for round in range(ROUNDS + 1)] for reader in readers)
    assert computed == [*range(ROUNDS + 1)]


def test_nothing_is_computed_before_it_is_needed() -> None:
    computed: list[int] = []
    shared = SharedSteps(lambda: counting(computed))
    assert not computed
    fast, slow = Run(shared), Run(shared)
    fast.advance(3)
    assert (fast.round, slow.round, computed) == (3, 0, [0, 1, 2, 3])


def test_a_press_ends_a_training_between_two_steps_and_keeps_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    run = Run(SharedSteps(lambda: counting(computed)))

    def leave() -> None:
        if computed[-1] == 2:
            raise KeyboardInterrupt  # like Streamlit's exceptions, not an Exception

    with monkeypatch.context() as patch:
        patch.setattr(shared_steps, "leave_if_outdated", leave)
        with pytest.raises(KeyboardInterrupt):
            run.advance(5)
    assert (run.round, computed) == (0, [0, 1, 2])
    run.advance(5)
    assert (run.round, computed) == (5, [*range(6)])


def test_a_run_stops_at_the_last_step() -> None:
    run = Run(SharedSteps(lambda: counting([])))
    run.advance(ROUNDS - 1)
    run.advance(10_000)
    run.advance(1)
    assert run.round == ROUNDS and len(run.steps) == ROUNDS + 1


def test_a_failed_step_starts_the_training_over_for_the_next_reader() -> None:
    failures = iter([True, False])
    computed: list[int] = []
    shared = SharedSteps(lambda: counting(computed, lambda round: round == 5 and next(failures)))
    first, second = Run(shared), Run(shared)
    second.advance(2)
    with pytest.raises(ZeroDivisionError):
        first.advance(7)
    assert len(TURNS) == 0
    second.advance(7)
    first.advance(7)
    assert [step.round for step in second.steps] == [*range(10)] and [step.round for step in first.steps] == [*range(8)]
    assert computed == [0, 1, 2, 3, 4, *range(10)]


@pytest.mark.usefixtures("_no_trainings")
def test_readers_at_one_place_train_one_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Simulation] = []

    def make(*args: Any) -> Simulation:
        made.append(Simulation(*args))
        return made[-1]

    monkeypatch.setattr(mini_run, "Simulation", make)
    story = stories()["one-model"]
    runs = [shared_run.start(story, {"turn": turn}) for turn in ("0", "90", "0")]
    for run in runs:
        run.advance(2)
    assert len(made) == 2
    assert runs[0].now is runs[2].now and runs[0].now is not runs[1].now


SAME_STEPS = {"skews", "alone", "privacy", "robustness"}  # as one-model and deadlines


@pytest.mark.usefixtures("_no_trainings")
@pytest.mark.parametrize("slug", [slug for slug in stories() if slug not in SAME_STEPS])
@pytest.mark.slow
def test_a_shared_run_has_the_numbers_of_one_alone(slug: str) -> None:
    story = stories()[slug]
    place: Place = place_of(story, story.scenes[-1].place)
    shared = [shared_run.start(story, place) for _ in range(2)]
    for run, strides in zip(shared, ((1, 1, 1), (2, 1)), strict=True):
        for stride in strides:
            run.advance(stride)
    alone = Run(SharedSteps(lambda: story.steps(place)))
    alone.advance(3)
    assert shared[0].steps == shared[1].steps and len(alone.steps) == 4
    assert [step.round for step in shared[0].steps] == [step.round for step in alone.steps]
    np.testing.assert_array_equal([step.value for step in shared[0].steps], [step.value for step in alone.steps])


@pytest.mark.usefixtures("_no_trainings")
def test_a_story_is_loaded_once_in_advance_unless_that_failed() -> None:
    started: list[Place] = []

    class Failing:
        slug = "failing"

        def steps(self, place: Place) -> Iterator[Count]:
            started.append(place)
            if len(started) == 1:
                raise ZeroDivisionError
            yield Count(0)

    story: Any = Failing()
    with pytest.raises(ZeroDivisionError):
        shared_run.warm_up(story, {"k": "1"})
    for k in "123":
        shared_run.warm_up(story, {"k": k})
    assert started == [{"k": "1"}, {"k": "1"}]
