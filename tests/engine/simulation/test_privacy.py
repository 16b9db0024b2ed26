"""Private clients in a run: what is bit-identical, what is recorded, who takes part, and resuming."""

import itertools

import numpy as np
import pytest
import torch

from engine.config.schema import RunConfig
from engine.simulation.simulate import Simulation
from tests.support.builders import assert_close, assert_equal, config, federation, personalized

EQUAL = (6, 6, 6, 6)


def private(algorithm="fedavg", privacy=None, **changed) -> RunConfig:
    run = config(algorithm, **changed).to_dict()
    return RunConfig.from_dict(run if privacy is None else run | {"privacy": {"delta": 0.01} | privacy})


def finished(algorithm="fedavg", privacy=None, sizes=EQUAL, **changed) -> tuple[Simulation, list]:
    run = Simulation(private(algorithm, privacy, **changed), data=federation(sizes))
    return run, [*run.rounds()]


def scalar(result, name: str) -> float:
    return result.scalars[f"diagnostics.{name}"]


def test_an_absent_section_is_absent_from_the_configuration():
    assert "privacy" not in private().to_dict()
    run = private(privacy={"noise": 2.0})
    assert RunConfig.from_dict(run.to_dict()) == run and run.digest != private().digest


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedprox_onestage", "fedopt", "fedem"])
def test_without_noise_and_with_a_large_norm_nothing_changes_where_clients_are_equal(name):
    plain, _ = finished(name)
    run, _ = finished(name, {"noise": 0, "clip": 1e6})
    assert_close(personalized(run), personalized(plain))


def test_training_alone_is_bit_identical_and_costs_no_epsilon():
    plain, _ = finished("local_train")
    run, rounds = finished("local_train", {"noise": 1.0})
    assert_equal(run.state.personal_params, plain.state.personal_params)
    assert [scalar(r, "privacy.epsilon") for r in rounds if r.evaluated] == [0] * len(
        [r for r in rounds if r.evaluated]
    )
    assert any("nothing travels, so clients are private as it is" in note for note in run.task.notes)


def test_epsilon_rises_from_round_to_round():
    _, rounds = finished(privacy={"noise": 1.0})
    spent = [scalar(r, "privacy.epsilon") for r in rounds]
    assert spent[0] == 0 and all(b > a for a, b in itertools.pairwise(spent))


def test_a_personal_model_that_is_not_pulled_is_that_of_a_run_without_privacy():
    plain, _ = finished("apfl", rounds=1)
    run, _ = finished("apfl", {"noise": 5.0}, rounds=1)
    assert_equal(run.state.personal_params, plain.state.personal_params)
    new, old = run.state.global_params, plain.state.global_params
    assert all((p != old[n]).any() for n, p in new.items())


def test_participants_are_drawn_on_their_own_or_in_a_fixed_number():
    sizes = (5,) * 20
    poisson, _ = finished(privacy={"noise": 1.0}, sizes=sizes, participation=0.3, rounds=1)
    fixed, _ = finished(privacy={"noise": 1.0, "sampling": "fixed"}, sizes=sizes, participation=0.3, rounds=1)
    assert {len(fixed.task.participants(t)) for t in range(20)} == {6}
    counts = [len(poisson.task.participants(t)) for t in range(200)]
    assert len(set(counts)) > 5 and np.mean(counts) == pytest.approx(6, abs=0.6)


def test_a_round_without_participants_still_releases_noise():
    run = Simulation(private(privacy={"noise": 1.0}, participation=0.01, rounds=1), data=federation(EQUAL))
    assert run.task.is_empty_draw(1) and len(run.task.participants(1)) == 1
    before = run.task.initial_model()
    _, result = run.rounds()
    assert scalar(result, "privacy.signal_norm") == 0 and scalar(result, "privacy.noise_norm") > 0
    moved = torch.cat([(p - before[n]).flatten() for n, p in run.state.global_params.items()])
    assert torch.linalg.vector_norm(moved).item() == pytest.approx(scalar(result, "privacy.noise_norm"), rel=1e-6)


def test_a_run_with_an_adaptive_norm_continues_from_a_checkpoint():
    privacy = {"noise": 0.05, "clip": "adaptive"}
    whole, results = finished("ditto", privacy, rounds=4)
    assert len({scalar(r, "privacy.clip") for r in results[1:]}) == 4
    half = Simulation(private("ditto", privacy, rounds=4), data=federation(EQUAL))
    rounds = half.rounds()
    for _ in range(3):
        next(rounds)
    other = Simulation(private("ditto", privacy, rounds=4), data=federation(EQUAL))
    other.restore(half.checkpoint())
    rest = [*other.rounds()]
    assert_equal(personalized(other), personalized(whole))
    assert other.channel == whole.channel and rest[-1].scalars.keys() == results[-1].scalars.keys()
