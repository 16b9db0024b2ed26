"""Tiny runs on digits, loaded from their stored models like in an analysis."""

from collections.abc import Callable
from typing import Any

from engine.analyses.support.loaded_run import Subject
from engine.config.schema import RunConfig, parse_experiment
from engine.core.results import RoundResult
from engine.export.saved_models import pack, unpack
from engine.simulation.simulate import Simulation

TINY: dict[str, Any] = {
    "name": "tiny",
    "dataset": "digits",
    "model": "mlr",
    "algorithms": ["fedavg"],
    "partition": {"name": "classes_per_client", "num_clients": 4, "test_fraction": 0.25},
    "training": {"rounds": 4, "local_steps": 2, "participation": 0.5, "lr": 0.1},
}


def tiny_config(**changes: Any) -> RunConfig:
    return parse_experiment(TINY | changes).runs()[0]


def trained(config: RunConfig, progress: Callable[[float], None] = lambda share: None) -> tuple[Subject, RoundResult]:
    """The run after its last round, and the record of that round."""
    simulation = Simulation(config)
    *_, last = simulation.rounds()
    models = unpack(pack(simulation.models()))
    return Subject.load(config, models, simulation.round, progress=progress), last
