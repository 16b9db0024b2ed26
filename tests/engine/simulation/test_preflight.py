"""What is refused before a run starts, and what is left to the worker."""

import pytest

from engine import check
from engine.config import parse_experiment
from engine.errors import InvalidConfig
from engine.simulate import Simulation

EXPERIMENT = {
    "name": "four clients",
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 4},
    "model": "mlr",
    "algorithms": [{"name": "gpfl"}],
}


def test_a_method_that_cannot_start_is_refused_with_its_name() -> None:
    with pytest.raises(InvalidConfig, match=r"gpfl.*model"):
        check.check_runs(parse_experiment(EXPERIMENT).runs())


def test_models_too_large_to_try_are_left_to_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    four_models = 4 * (64 * 10 + 10) * 4  # clients x parameters of mlr on digits x bytes of a float32
    monkeypatch.setattr(Simulation, "__init__", lambda *_, **__: pytest.fail("set up"))
    monkeypatch.setattr(check, "MOST_BYTES", four_models - 1)
    check.check_runs(parse_experiment(EXPERIMENT).runs())
    monkeypatch.setattr(check, "MOST_BYTES", four_models)
    with pytest.raises(pytest.fail.Exception, match="set up"):
        check.check_runs(parse_experiment(EXPERIMENT).runs())


def test_the_check_of_a_method_stops_where_its_setup_evaluates_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.evaluate.evaluate", lambda *_: pytest.fail("evaluated"))
    check.check_runs(parse_experiment(EXPERIMENT | {"algorithms": [{"name": "ifca", "K": 2}]}).runs())
