"""The story on λ: its shipped results, its run and its scenes."""

from itertools import islice

import numpy as np
import pytest

from app.components.moving_figure import hidden_results
from app.stories import lambda_curves as curves
from app.stories import lambda_dial as story
from app.stories import lambda_run
from app.stories.lambda_curves import ADAPTIVE, ALONE, TOGETHER, Stop, example
from app.stories.lambda_dial import STORY
from app.stories.lambda_run import SETTLED_ROUNDS, LambdaRun, is_flat, steps
from engine.config.schema import parse_experiment
from engine.simulation.simulate import Simulation
from tests.support.stories import run_of, simulations_of


@pytest.mark.parametrize("R", curves.SPREADS)
def test_the_slider_goes_from_alone_to_together_and_includes_adaptive(R: float) -> None:
    stops = story.stops(R)
    first, *_, last = stops
    assert (first, last) == (ALONE, TOGETHER) and ADAPTIVE in stops
    lambdas = [example().lam_of(R, dial) for dial in stops.values()][:-1]
    assert lambdas == sorted(lambdas)


@pytest.mark.parametrize("R", curves.SPREADS)
def test_the_best_lambda_beats_both_ends(R: float) -> None:
    curve = example().curve(R)
    assert curve.best == min(curve.errors) <= min(curve.alone, curve.together)


@pytest.mark.parametrize("R", curves.SPREADS)
def test_the_adaptive_choice_is_close_to_the_best(R: float) -> None:
    curve = example().curve(R)
    assert curve.adaptive < 1.5 * curve.best


def test_the_shipped_adaptive_lambda_matches_the_papers_formula() -> None:
    truth = example().truth(2.0)
    R_h = np.linalg.norm(truth - truth.mean(0), axis=1).max()
    assert example().curve(2.0).adaptive_lam == pytest.approx(2**2 / (200 * R_h**2), rel=1e-3)
    assert example().curve(0.0).adaptive_lam == pytest.approx(1 / 0.15)


def test_the_adaptive_lambda_is_computed_from_the_true_models_and_the_page_says_so() -> None:
    *_, scene = STORY.scenes
    (simulation,) = simulations_of(STORY.steps(scene.place))
    truth = example().truth(float(scene.place["spread"]))
    assert simulation.state.facts["R_h"] == pytest.approx(np.linalg.norm(truth - truth.mean(0), axis=1).max(), rel=1e-3)
    assert "true models, which no server has" in scene.text and "the adaptive λ" in scene.finding
    assert "on other data their distance is estimated" in STORY.caption


def test_the_last_scene_names_the_best_lambda_of_both_spreads_and_nothing_before_it() -> None:
    scene = STORY.scenes[-1]
    assert f"{example().curve(3.0).best_lam:g}; at R = 1, {example().curve(1.0).best_lam:g}" in scene.finding
    assert STORY.dials(scene.place)[1].stops[ADAPTIVE] == "★ adaptive"
    with hidden_results(True):
        assert "adaptive λ" in STORY.picture(scene.place, None, []).now
    assert "λ = 0.0021" in STORY.picture(scene.place, None, []).now
    assert f"{example().curve(0.0).together:.2f}" not in STORY.scenes[0].finding  # the next question asks for it


def test_the_caption_says_that_a_run_may_end_beside_the_curve() -> None:
    assert "need not end on the curves" in STORY.caption


def test_every_scene_has_its_number() -> None:
    for scene in STORY.scenes:
        R, stop = float(scene.place["spread"]), story.stops(float(scene.place["spread"]))[scene.place["share"]]
        assert f"{example().goal(R, stop):.2f}" in scene.text


def test_the_shipped_results_match_the_engine() -> None:
    simulation = Simulation(parse_experiment(story.config(1.0, 0.1)).runs()[0])
    _, first = islice(simulation.rounds(), 2)
    assert simulation.task.data.truth["weights"] == pytest.approx(example().truth(1.0), abs=2e-4)
    assert first.scalars["diagnostics.statistical_error_local"] == pytest.approx(example().goal(1.0, 0.1), abs=2e-4)


def run_at(R: float, stop: Stop) -> LambdaRun:
    return run_of(steps(story.config(R, stop), R))


@pytest.mark.slow
def test_a_run_starts_at_zero_and_converges_to_the_curve() -> None:
    run = run_at(1.0, 0.05)
    assert run.now.standing.error == pytest.approx(curves.untrained(1.0).error)
    run.advance(40)
    assert run.now.standing.round == 40 and len(run.steps) == 41
    assert run.now.standing.error == pytest.approx(example().goal(1.0, 0.05), rel=0.03)


def test_together_all_clients_have_the_global_model() -> None:
    run = run_at(1.0, TOGETHER)
    run.advance(1)
    assert run.now.standing.models == pytest.approx(np.tile(run.now.standing.shared, (10, 1)))


def test_alone_there_is_no_global_model() -> None:
    assert run_at(1.0, ALONE).now.standing.shared is None


def test_a_run_ends_once_its_error_hardly_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = [9.0, *[1.0] * SETTLED_ROUNDS]
    assert is_flat(flat) and not is_flat(flat[1:]) and not is_flat([*flat[:-1], 1.01])
    monkeypatch.setattr(lambda_run, "SETTLED_ROUNDS", 3)
    monkeypatch.setattr(lambda_run, "SETTLED_SHARE", 1e9)
    taken = islice(steps(story.config(1.0, 0.05), 1.0), 5)
    assert [step.is_settled for step in taken] == [False, False, False, True, True]
