"""The story of the lambda dial: its shipped results, its run, and what the reader has on the desk."""

from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np
import pytest

from app.stories import desk as desks
from app.stories import lambda_dial as story
from app.stories.desk import Desk
from app.stories.lambda_dial import ADAPTIVE, ALONE, TOGETHER, Dial, Standing, example
from app.stories.mini_run import MiniRun
from engine.config import parse_experiment
from engine.simulate import Simulation


@dataclass
class FakeRun:
    """Counts rounds instead of training."""

    R: float
    dial: Dial
    rounds: int = 0
    is_settled: bool = False
    errors: list[float] = field(default_factory=list)

    @property
    def standing(self) -> Standing:
        return Standing(self.rounds, np.zeros((2, 3)), None, np.array([1.0, 3.0]))

    def advance(self, rounds: int) -> None:
        self.rounds += rounds


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(desks, "start", FakeRun)
    return Desk()


def test_nothing_trains_before_the_reader_asks(desk: Desk) -> None:
    assert desk.train(1.0, ALONE) is None


def test_a_step_is_one_round(desk: Desk) -> None:
    desk.step()
    run = desk.train(1.0, ALONE)
    assert run and run.standing.round == 1
    assert desk.train(1.0, ALONE).standing.round == 1


def test_a_run_that_plays_goes_on_at_every_tick(desk: Desk) -> None:
    desk.play()
    rounds = [desk.train(1.0, ALONE).standing.round for _ in range(4)]
    assert all(later >= earlier + desks.LEAST_ROUNDS for earlier, later in pairwise(rounds))


def test_a_slow_machine_sees_the_first_rounds_too(desk: Desk) -> None:
    desk.play()
    desk._last_tick -= 60
    assert desk.train(1.0, ALONE).standing.round == desks.LEAST_ROUNDS


def test_moving_a_dial_leaves_a_mark_and_starts_anew(desk: Desk) -> None:
    desk.play()
    desk.train(1.0, 0.1)
    assert desk.train(1.0, TOGETHER).dial == TOGETHER
    assert desk.ends[1.0] == [(0.1, 2.0)]


def test_an_untrained_run_leaves_no_mark(desk: Desk) -> None:
    desk.run = FakeRun(1.0, 0.1)
    desk.train(1.0, ALONE)
    assert not desk.ends[1.0]


def test_playing_a_settled_run_starts_it_anew(desk: Desk) -> None:
    desk.run = FakeRun(1.0, 0.1, rounds=90, is_settled=True)
    desk.play()
    assert desk.train(1.0, 0.1).standing.round == desks.LEAST_ROUNDS


def test_reset_clears_the_desk(desk: Desk) -> None:
    desk.play()
    desk.train(1.0, 0.1)
    desk.train(1.0, ALONE)
    desk.reset()
    assert desk.train(1.0, ALONE) is None
    assert not desk.ends


@pytest.mark.parametrize("R", story.SPREADS)
def test_the_dial_goes_from_alone_to_together_with_adaptive_in_its_place(R: float) -> None:
    stops = story.stops(R)
    first, *_, last = stops
    assert (first, last) == (ALONE, TOGETHER) and ADAPTIVE in stops
    lambdas = [example().lam_of(R, dial) for dial in stops.values()][:-1]
    assert lambdas == sorted(lambdas)


@pytest.mark.parametrize("R", story.SPREADS)
def test_the_best_lambda_beats_both_ends(R: float) -> None:
    curve = example().curve(R)
    assert curve.best == min(curve.errors) <= min(curve.alone, curve.together)


@pytest.mark.parametrize("R", story.SPREADS)
def test_the_adaptive_choice_is_never_far_from_the_best(R: float) -> None:
    curve = example().curve(R)
    assert curve.adaptive < 1.5 * curve.best


def test_the_shipped_adaptive_lambda_is_the_formula_of_the_paper() -> None:
    truth = example().truth(2.0)
    R_h = np.linalg.norm(truth - truth.mean(0), axis=1).max()
    assert example().curve(2.0).adaptive_lam == pytest.approx(2**2 / (200 * R_h**2), rel=1e-3)
    assert example().curve(0.0).adaptive_lam == pytest.approx(1 / 0.15)


def test_every_scene_says_numbers_and_stands_on_the_dial() -> None:
    for scene in story.SCENES:
        assert scene.dial in story.stops(scene.R).values()
        assert f"{example().goal(scene.R, scene.dial):.2f}" in scene.told()
        assert story.scene_at(scene.R, scene.dial) is scene


def test_the_shipped_results_are_the_engines() -> None:
    simulation = Simulation(parse_experiment(story.config(1.0, 0.1)).runs()[0])
    _, first = islice(simulation.rounds(), 2)
    assert simulation.task.data.truth["weights"] == pytest.approx(example().truth(1.0), abs=2e-4)
    assert first.scalars["diagnostics.statistical_error_local"] == pytest.approx(example().goal(1.0, 0.1), abs=2e-4)


def test_a_run_starts_at_zero_and_comes_to_where_the_curve_says() -> None:
    run = MiniRun(1.0, 0.05)
    assert run.standing.error == pytest.approx(story.untrained(1.0).error)
    run.advance(40)
    assert run.standing.round == 40 and len(run.errors) == 41
    assert run.standing.error == pytest.approx(example().goal(1.0, 0.05), rel=0.03)


def test_together_all_clients_have_the_common_model() -> None:
    run = MiniRun(1.0, TOGETHER)
    run.advance(1)
    assert run.standing.models == pytest.approx(np.tile(run.standing.shared, (10, 1)))


def test_alone_there_is_no_common_model() -> None:
    assert MiniRun(1.0, ALONE).standing.shared is None
