"""The story on client drift: its arithmetic against closed forms and the engine, and its claims."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from app.stories.asked import all_answered
from app.stories.drift import CLOSE, STEPS, STORY, example, finding, heading, real_clients, rounds_to
from app.stories.drift_run import CLIENTS, LR, NAMES, ROUNDS, START, DriftStep, steps
from app.stories.figures import drift_distance, drift_plane
from app.stories.quadratics import Clients, Method
from engine.backends import Backend
from engine.config.schema import parse_experiment
from engine.core.params import ClientParams
from engine.datasets import Pool
from engine.federation.batches import Batch
from engine.federation.clients import lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation
from tests.support import builders
from tests.support.stories import run_of


@dataclass(frozen=True)
class Quadratic(Backend):
    """The clients' quadratic losses for the engine: a client is the label of its only sample, w is (weight, bias)."""

    clients: Clients
    name: str = "quadratic"

    def chunk_size(self, model: object, batch_bytes: int, device: torch.device, beside: int = 0) -> int:
        return len(self.clients.optima)

    def accumulate(
        self, out: ClientParams, params: ClientParams, batch: Batch, alpha: float, beta: float, *_: object
    ) -> torch.Tensor:
        w = torch.stack([params["head.weight"].flatten(), params["head.bias"].flatten()], 1).numpy()
        assert batch.y[:, 0].tolist() == [0, 1]
        gradient = torch.from_numpy(self.clients.gradients(w))
        for target, own in ((out["head.weight"], gradient[:, :1, None]), (out["head.bias"], gradient[:, 1:])):
            target.mul_(beta).add_(own, alpha=alpha)
        return torch.zeros(len(w), dtype=torch.float64)


def server_path(method: str, E: int, rounds: int) -> np.ndarray:
    """[rounds + 1, 2] the shared model of the engine's method, whose start is zero, on clients moved accordingly."""
    one_each, empty = tuple(np.array([i]) for i in range(2)), (np.zeros(0, np.int64),) * 2
    pool = Pool(np.zeros((2, 1)), np.arange(2), num_classes=2)
    data = lay_out(pool, Partition(one_each, empty, empty), torch.float64, torch.device("cpu"))
    settings = {"local_steps": E, "lr": LR, "batch_size": "full", "rounds": rounds}
    run = builders.simulation(method, data, model={"name": "logistic", "init": "zeros"}, **settings)
    run.task = replace(run.task, backend=Quadratic(Clients(CLIENTS.curvatures, CLIENTS.optima - START)))
    state, path = run.state, [np.zeros(2)]
    for round in range(1, rounds + 1):
        state, _ = run.algorithm.round(state, run.task.cohort(round), run.task)
        path.append(np.concatenate([p.flatten().numpy() for p in state.global_params.values()]))
    return START + np.stack(path)


def ended(E: int) -> DriftStep:
    *_, last = steps(E)
    return last


@pytest.mark.parametrize("E", [1, 7])
@pytest.mark.parametrize("name", NAMES)
def test_the_paths_are_those_of_the_engines_methods(name: str, E: int) -> None:
    run = run_of(steps(E))
    run.advance(5)
    np.testing.assert_allclose(run.now.methods[name].server, server_path(name.lower(), E, 5), atol=1e-12)


@pytest.mark.parametrize("E", [int(E) for E in STEPS])
def test_fedavg_stops_where_the_closed_form_says(E: int) -> None:
    end = CLIENTS.fedavg_end(E, LR)
    there = Method.untrained(CLIENTS, E, LR, end, is_corrected=False)
    np.testing.assert_allclose(there.round().server[-1], end, atol=1e-12)


@pytest.mark.parametrize("E", [int(STEPS[0]), int(STEPS[-1])])
def test_scaffold_converges_to_the_minimum(E: int) -> None:
    method = Method.untrained(CLIENTS, E, LR, START, is_corrected=True)
    for _ in range(400):
        method = method.round()
    assert method.distances[-1] < 1e-9


def test_one_local_step_is_gradient_descent_on_the_mean_loss() -> None:
    np.testing.assert_allclose(CLIENTS.fedavg_end(1, LR), CLIENTS.minimum, atol=1e-12)
    method = Method.untrained(CLIENTS, 1, LR, START, is_corrected=False)
    method = method.round()
    slope = CLIENTS.gradients(np.stack([START, START])).mean(0)
    np.testing.assert_allclose(method.server[-1], START - LR * slope)


def test_with_very_many_steps_fedavg_ends_in_the_middle_of_the_optima() -> None:
    np.testing.assert_allclose(CLIENTS.fedavg_end(5000, LR), CLIENTS.optima.mean(0), atol=1e-9)


def test_equal_curvatures_do_not_drift() -> None:
    alike = Clients(np.stack([CLIENTS.curvatures[0]] * 2), CLIENTS.optima)
    np.testing.assert_allclose(alike.fedavg_end(20, LR), alike.minimum, atol=1e-12)
    np.testing.assert_allclose(alike.minimum, alike.optima.mean(0), atol=1e-12)


def test_the_gradient_vanishes_at_the_minimum_and_the_loss_is_least_there() -> None:
    at = np.stack([CLIENTS.minimum, CLIENTS.minimum])
    np.testing.assert_allclose(CLIENTS.gradients(at).sum(0), 0, atol=1e-12)
    around = CLIENTS.minimum + 0.01 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    assert (CLIENTS.loss(around) > CLIENTS.loss(CLIENTS.minimum)).all()


def test_more_local_steps_stop_further_from_the_minimum() -> None:
    gaps = [np.linalg.norm(CLIENTS.fedavg_end(int(E), LR) - CLIENTS.minimum) for E in STEPS]
    assert (np.diff(gaps) > 0).all()


def test_more_local_steps_are_faster_at_first() -> None:
    assert ended(5).methods["FedAvg"].distances[10] < ended(1).methods["FedAvg"].distances[10]


def test_with_fifty_steps_clients_run_most_of_the_way_and_fedavg_ends_in_the_middle() -> None:
    paths = ended(50).methods["FedAvg"].paths
    assert paths is not None
    before, after = (np.linalg.norm(paths[step] - CLIENTS.optima, axis=1) for step in (0, -1))
    assert (after < 0.5 * before).all()
    gap, apart = (np.linalg.norm(CLIENTS.fedavg_end(50, LR) - at) for at in (CLIENTS.minimum, CLIENTS.optima.mean(0)))
    assert apart < 0.2 * gap


@pytest.mark.slow
def test_the_shipped_accuracies_match_the_engine() -> None:
    runs = parse_experiment({**real_clients("1"), "evaluation": {"every": 1000}}).runs()
    for name, run in zip(NAMES, runs, strict=True):
        *_, last = Simulation(run).rounds()
        shipped = example().lines[name][STEPS.index("1"), example().seeds.index(0)]
        assert last.scalars["global.weighted_mean"] == pytest.approx(shipped, abs=0.01)


def test_on_real_clients_more_steps_pay_and_scaffold_is_ahead() -> None:
    fedavg, scaffold = (example().lines[name].mean(1) for name in NAMES)
    assert (np.diff(fedavg) > 0).all() and fedavg[0] == pytest.approx(scaffold[0], abs=1e-3)
    assert 0 < scaffold[-1] - fedavg[-1] < 0.03
    assert STORY.scenes[-1].question.right == "20 steps: faster"


def test_headings_and_findings_say_where_methods_end() -> None:
    assert heading("FedAvg", "10") == "FedAvg ends 0.95 away"
    assert heading("SCAFFOLD", "10") == "SCAFFOLD ends at the minimum"
    assert finding("1").startswith("With 1 local step, FedAvg and SCAFFOLD both end at the minimum")
    assert rounds_to(CLOSE, "FedAvg", "10") is None


def test_the_scene_on_digits_shows_accuracies_on_digits() -> None:
    on_digits, on_two = (STORY.picture(STORY.scenes[at].place) for at in (-1, 0))
    assert "digits" in on_digits.title and "two clients" in on_digits.now
    assert "○" in on_two.note and "★" in on_two.note


def test_the_run_ends_after_its_last_round() -> None:
    run = run_of(steps(2))
    run.advance(ROUNDS - 1)
    assert not run.is_settled
    run.advance(9)
    assert run.is_settled and run.round == ROUNDS
    assert run.value == pytest.approx(np.linalg.norm(CLIENTS.fedavg_end(2, LR) - CLIENTS.minimum), abs=1e-3)


def test_a_local_path_has_a_point_for_every_step() -> None:
    run = run_of(steps(5))
    run.advance(1)
    method = run.now.methods["FedAvg"]
    moves = drift_plane.moving(method.server, method.paths)
    assert len(moves["path A"]["x"]) == 6 and moves["path A"]["x"][0] == moves["path B"]["x"][0] == START[0]
    middle = (moves["path A"]["x"][-1] + moves["path B"]["x"][-1]) / 2
    assert moves["your run"]["x"] == moves["server"]["x"][-1:] == [pytest.approx(middle)]


def test_everything_animated_has_a_trace() -> None:
    step = ended(2)
    method = step.methods["FedAvg"]
    df = drift_distance.data({name: own.distances for name, own in step.methods.items()})
    plane, curve = drift_plane.figure(method.server[-1]), drift_distance.figure(df)
    assert set(drift_plane.moving(method.server, method.paths)) <= {trace.name for trace in plane.data}
    assert set(drift_distance.moving(df)) == set(NAMES) <= {trace.name for trace in curve.data}


def test_the_table_has_every_round_of_both_methods() -> None:
    assert len(STORY.table()) == len(STEPS) * len(NAMES) * (ROUNDS + 1)


def test_before_the_scene_about_scaffold_only_fedavg_is_shown() -> None:
    first, correction = STORY.scenes[:3], STORY.scenes[3]
    for scene in first:
        assert "SCAFFOLD" not in scene.finding + STORY.finding(scene.place) + STORY.picture(scene.place).alt
    assert set(STORY.table([scene.place for scene in first])["method"]) == {"FedAvg"}
    assert "SCAFFOLD" in correction.finding and "SCAFFOLD" in STORY.finding(correction.place)
    with all_answered(True):
        assert "SCAFFOLD" in STORY.finding(first[0].place)
