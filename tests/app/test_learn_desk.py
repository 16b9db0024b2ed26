"""The state of a story on the Learn page, with a story that only counts rounds."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from app.data.lru import Lru
from app.stories import shared_run
from app.stories.desk import Desk
from app.stories.questions import Estimate
from app.stories.story import Dial, Mark, Place, Scene, place_of

LEAST, ROUNDS = 3, 100
WAIT_S = 20
HERE, THERE = {"k": "1"}, {"k": "2"}


@dataclass(frozen=True)
class Count:
    """Counts rounds instead of training."""

    place: Place
    round: int

    @property
    def value(self) -> float:
        return float(self.place["k"])

    @property
    def is_settled(self) -> bool:
        return self.round == ROUNDS


class Counting:
    """A story with one slider."""

    slug, scenes = "counting", ()

    def dials(self, place: Mapping[str, str]) -> list[Dial]:
        return [Dial("k", "K", {"1": "one", "2": "two"}, "2")]

    def steps(self, place: Place) -> Iterator[Count]:
        for round in range(ROUNDS + 1):
            yield Count(place, round)

    def pace(self, round: int) -> float:
        return 4 * LEAST


class Asking(Counting):
    """The same story with a question in its second scene."""

    scenes = (
        Scene("One", HERE, ""),
        Scene("Two", THERE, "", question=Estimate("?", np.array([2.0]), "1 seed", lambda run: run.value)),
    )


@pytest.fixture
def asking() -> Desk:
    story: Any = Asking()
    return Desk(story)


@pytest.fixture
def desk() -> Desk:
    story: Any = Counting()
    return Desk(story)


def test_nothing_trains_before_play_or_step(desk: Desk) -> None:
    assert desk.train(HERE) is None


def test_a_step_is_one_round(desk: Desk) -> None:
    desk.step()
    assert desk.train(HERE).round == 1
    assert desk.train(HERE).round == 1


def test_a_playing_run_advances_at_every_tick(desk: Desk) -> None:
    desk.play()
    rounds = [desk.train(HERE).round for _ in range(4)]
    assert all(later >= earlier + LEAST for earlier, later in pairwise(rounds))


def test_a_slow_machine_also_shows_the_first_rounds(desk: Desk) -> None:
    desk.play()
    desk._last_tick -= 60
    assert desk.train(HERE).round == LEAST


def test_moving_a_slider_trains_from_the_start(desk: Desk) -> None:
    desk.play()
    desk.train(HERE)
    desk.pause()
    desk.turn(THERE)
    run = desk.train(THERE)
    assert (run.now.place, run.round, desk.is_playing) == (THERE, LEAST, True)


def test_a_finished_run_leaves_a_mark_and_an_abandoned_one_does_not(desk: Desk) -> None:
    desk.play()
    desk.train(HERE).advance(ROUNDS)
    desk.turn(THERE)
    desk.train(THERE)
    desk.turn(HERE)
    desk.train(HERE)
    assert desk.marks == [Mark(HERE, 1.0)]


def test_two_runs_with_equal_settings_are_one_mark(desk: Desk) -> None:
    for _ in range(3):
        desk.play()
        desk.train(HERE).advance(ROUNDS)
    assert desk.marks == [Mark(HERE, 1.0)]


def test_playing_a_finished_run_restarts_it(desk: Desk) -> None:
    desk.play()
    desk.train(HERE).advance(ROUNDS)
    desk.play()
    assert desk.train(HERE).round == LEAST


def test_a_step_is_still_due_if_the_page_was_stopped_while_it_waited(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _Stopped(BaseException):
        """Stands for Streamlit's StopException."""

    def stopped(*_: object) -> None:
        raise _Stopped

    desk.step()
    with monkeypatch.context() as patch:
        patch.setattr(shared_run, "start", stopped)
        with pytest.raises(_Stopped):
            desk.train(HERE)
    assert desk.train(HERE).round == 1


def test_reset_clears_the_state(desk: Desk) -> None:
    desk.play()
    desk.train(HERE).advance(ROUNDS)
    desk.turn(THERE)
    desk.train(THERE)
    desk.reset()
    assert desk.train(THERE) is None
    assert not desk.marks


def test_a_scene_that_asks_waits_and_one_that_does_not_plays(asking: Desk) -> None:
    for scene, waits in zip(asking.story.scenes, (False, True), strict=True):
        asking.show(scene)
        assert asking.is_playing is not waits and asking.has_open_question(scene.place) is waits


def test_the_end_of_a_run_reveals_and_keeps_the_guess_and_its_own_result(asking: Desk) -> None:
    asking.guess(THERE, 1.0)
    asking.turn(THERE)
    asking.train(THERE)
    assert asking.has_open_question(THERE) and asking.has_started(THERE)
    asking.run.advance(ROUNDS)
    asking.train(THERE)
    assert not asking.has_open_question(THERE)
    assert (asking.guess_at(THERE), asking.ended(THERE)) == (1.0, 2.0)


def test_a_result_shown_without_a_run_has_none_of_its_own(asking: Desk) -> None:
    asking.reveal(THERE)
    assert not asking.has_open_question(THERE) and asking.ended(THERE) is None


def test_reset_asks_again(asking: Desk) -> None:
    asking.guess(THERE, 1.0)
    asking.reveal(THERE)
    asking.reset()
    assert asking.has_open_question(THERE) and asking.guess_at(THERE) is None


def test_a_story_opens_where_its_first_scene_is(asking: Desk) -> None:
    assert place_of(asking.story, {}) == HERE


def test_missing_values_in_an_address_are_the_defaults() -> None:
    story: Any = Counting()
    assert place_of(story, {}) == place_of(story, {"k": "17", "other": "1"}) == {"k": "2"}
    assert place_of(story, {"k": "1"}) == {"k": "1"}


def test_a_press_waits_for_the_training_of_the_last_run_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_run, "_trainings", Lru(1))
    started, may_end = threading.Event(), threading.Event()
    seen: list[int] = []

    class Slow(Counting):
        slug = "slow"

        def steps(self, place: Place) -> Iterator[Count]:
            yield Count(place, 0)
            seen.append(+1)
            started.set()
            may_end.wait(WAIT_S)
            seen.append(-1)
            yield Count(place, ROUNDS)

    desk: Any = Desk(Slow())
    desk.step()
    training = [threading.Thread(target=desk.train, args=(HERE,)), threading.Thread(target=desk.train, args=(HERE,))]
    pressing = threading.Thread(target=desk.reset)
    training[0].start()
    assert started.wait(WAIT_S)
    training[1].start()
    pressing.start()
    pressing.join(0.2)
    assert pressing.is_alive()
    may_end.set()
    for thread in (*training, pressing):
        thread.join(WAIT_S)
    assert desk.run is None
    assert seen == [+1, -1]
