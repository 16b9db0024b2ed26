"""A checkpoint does not depend on the device: a run may continue on another one."""

import pytest

from engine.simulation.simulate import Simulation
from tests.support.on_devices import all_on, assert_same_models, assert_same_round, simulation

pytestmark = pytest.mark.slow


def after(run: Simulation, rounds: int) -> Simulation:
    for result in run.rounds():
        if result.round == rounds:
            break
    return run


@pytest.mark.parametrize("name", ["pfedme", "cgpfl", "scaffold"])
@pytest.mark.parametrize("starts_there", [True, False], ids=["from the device", "to the device"])
def test_a_run_continues_on_another_device(device: str, name: str, starts_there: bool) -> None:
    first, second = (device, "cpu") if starts_there else ("cpu", device)
    whole = list(simulation(name, "mlr", "cpu", rounds=4).rounds())
    continued = simulation(name, "mlr", second, rounds=4)
    continued.restore(after(simulation(name, "mlr", first, rounds=4), 2).checkpoint())
    rest = list(continued.rounds())
    assert [result.round for result in rest] == [3, 4]
    for ours, theirs in zip(rest, whole[3:], strict=True):
        assert_same_round(ours, theirs)
    assert all_on(second, continued.algorithm.personalized(continued.state, continued.task).params)


def test_the_models_at_the_end_are_those_of_the_cpu(device: str) -> None:
    found, expected = (after(simulation("ditto", "dnn", d, rounds=2), 2) for d in (device, "cpu"))
    assert_same_models(found, expected)
    assert found.config.digest == expected.config.digest
