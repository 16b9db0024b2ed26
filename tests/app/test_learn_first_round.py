"""The story on one round: its phases, bytes and pictures, and its claims."""

import numpy as np
import pytest

from app.stories import first_round_run
from app.stories.dial_example import pack
from app.stories.figures import accuracy_by_round, mosaic, round_picture
from app.stories.first_round import (
    ALONE,
    CLIENTS,
    IMAGES,
    ROUNDS,
    STORY,
    TOGETHER,
    config,
    example,
    finding,
    model_bytes,
)
from app.stories.first_round_run import FirstRoundRun, PhaseStep, steps
from app.stories.round_phases import AVERAGE, RETURN, SEND, TRAIN
from app.wording import percent_pm
from engine.simulation.simulate import Simulation
from tests.support.stories import run_of, simulations_of


def started(clients: str, phases: int) -> FirstRoundRun:
    run = run_of(steps(config(clients, "fedavg")))
    run.advance(phases)
    return run


def after(clients: str, phases: int) -> PhaseStep:
    return started(clients, phases).now


def simulation(clients: str) -> Simulation:
    return simulations_of(STORY.steps({"clients": clients}))[0]


@pytest.mark.parametrize("clients", CLIENTS)
def test_every_client_has_thirty_images(clients: str) -> None:
    assert simulation(clients).task.data.summary.train_sizes == (IMAGES,) * int(clients)


def test_a_model_is_650_numbers_of_4_bytes() -> None:
    assert first_round_run.model_bytes(simulation("5")) == model_bytes() == 2600


def test_bytes_are_those_that_the_engine_counts() -> None:
    step = after("5", 3 * 4)
    costs = next(simulation("5").rounds()).scalars
    assert step.bytes_down == 3 * costs["bytes_down"] == 3 * 5 * 2600
    assert step.bytes_up == 3 * costs["bytes_up"]


def test_models_are_sent_first_and_returned_after_training() -> None:
    phases = started("2", 4).steps[1:]
    assert [step.phase for step in phases] == [SEND, TRAIN, RETURN, AVERAGE]
    assert [(step.bytes_down, step.bytes_up) for step in phases] == [(5200, 0), (5200, 0), (5200, 5200), (5200, 5200)]
    assert [step.round for step in phases] == [1, 1, 1, 1]


def test_the_shared_picture_is_the_mean_of_the_copies() -> None:
    step = after("5", 4)
    assert step.copies is not None and step.copies.shape == (5, 8, 8)
    np.testing.assert_allclose(step.shared, step.copies.mean(0), atol=1e-6)


def test_the_run_ends_after_the_average_of_its_last_round() -> None:
    run = started("1", 4 * ROUNDS - 1)
    assert not run.is_settled and run.round == ROUNDS
    run.advance(7)
    assert run.is_settled and run.now.phase == AVERAGE and len(run.steps) == 4 * ROUNDS + 1


@pytest.mark.parametrize("clients", [CLIENTS[0], CLIENTS[-1]])
def test_the_shipped_numbers_match_the_engine(clients: str) -> None:
    run, at = started(clients, 4 * ROUNDS), CLIENTS.index(clients)
    assert run.value == pytest.approx(example().lines[TOGETHER][at, example().seeds.index(0)], abs=0.01)


def test_the_shipped_images_are_the_clients_own() -> None:
    data = simulation("2").task.data.train
    first = np.minimum(data.pool.x[data.rows[data.offsets[1]], 0].numpy(), 15)
    assert pack(example().pictures["2"][4]) == pack(first)


def test_more_clients_are_better_together_and_one_gains_nothing() -> None:
    together, alone = (example().lines[name].mean(1) for name in (TOGETHER, ALONE))
    assert (np.diff(together) > 0).all() and together[0] == alone[0]
    assert together[-1] > alone[-1] + 0.1


def test_scenes_and_findings_have_their_numbers() -> None:
    assert percent_pm(*example().at(TOGETHER, "10"), samples=100) in STORY.scenes[2].finding == finding("10")
    assert "2.6 kB" in STORY.scenes[1].finding and "1.92 kB" in STORY.scenes[1].text
    assert STORY.scenes[1].question.right == "More bytes than its images have"


def test_models_travel_between_server_and_clients() -> None:
    shared, copies = np.zeros((8, 8)), np.ones((3, 8, 8))
    at = {phase: round_picture.moving(phase, shared, copies, 3)["on the way"] for phase in range(4)}
    assert at[SEND] == at[TRAIN] and at[RETURN] == at[AVERAGE]
    assert len(set(at[SEND]["x"])) == 3 and len(set(at[RETURN]["x"])) == 1
    assert at[SEND]["y"][0] < at[RETURN]["y"][0]


def test_everything_animated_has_a_trace() -> None:
    fig = round_picture.figure(np.zeros((3, 4, 8, 8)), "90 %")
    assert set(round_picture.untrained(3)) == {"on the way", "shared model", "copy 0", "copy 1", "copy 2"}
    assert set(round_picture.untrained(3)) <= {trace.name for trace in fig.data}
    curve = accuracy_by_round.figure({"Together": 0.9, "Alone": 0.7}, ROUNDS, 5)
    assert set(accuracy_by_round.moving([0.1, 0.5], [(15, 0.9)])) <= {trace.name for trace in curve.data}


def test_the_curve_has_a_point_for_every_round() -> None:
    moves = accuracy_by_round.moving([0.1, 0.5], [])
    assert moves["way"] == {"x": [0, 1], "y": [10, 50]} and moves["your run"] == {"x": [1], "y": [50]}
    assert accuracy_by_round.moving([], [])["your run"] == {"x": [], "y": []}


def test_pictures_of_a_mosaic_are_in_rows_with_gaps_between() -> None:
    one, two = np.ones((8, 8)), np.full((8, 8), 2.0)
    z = mosaic.cells([[one, two], [two]], 2)
    assert len(z) == len(z[0]) == 18
    assert (z[0][7], z[0][8], z[0][9]) == (1, None, 2)
    assert z[9][0] == 2 and z[9][9] is None
