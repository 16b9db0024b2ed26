"""Experiments that are computed in a moment and stored."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.config.schema import RunConfig, parse_experiment
from engine.exchange.records import new_run, round_record
from engine.simulation.simulate import Simulation
from storage import ExperimentRecord, FinishedRun, Store

DIGITS: dict[str, Any] = {
    "name": "four methods on digits",
    "dataset": {"name": "digits"},
    "partition": {
        "name": "classes_per_client",
        "num_clients": 10,
        "classes_per_client": 3,
        "assignment": "cyclic",
        "test_fraction": 0.25,
    },
    "model": {"name": "mlr"},
    "training": {"rounds": 5, "local_steps": 5, "batch_size": 20, "lr": 0.05},
    "algorithms": [
        {"name": "fedavg"},
        {"name": "local_train"},
        {"name": "ditto"},
        {"name": "cgpfl", "K": 3, "lam": 12, "label": "CGPFL K=3"},
    ],
    "seeds": [0, 1],
}


def store_experiment(
    store: Store,
    raw: Mapping[str, Any],
    extra: Mapping[str, np.ndarray] | None = None,
    scalars: Mapping[str, float] | None = None,
) -> ExperimentRecord:
    """Computes every run of ``raw`` and stores it as done. Rounds also get the ``extra`` arrays and ``scalars``."""
    config = parse_experiment(raw)
    runs = [_finished(run, extra or {}, scalars or {}) for run in config.runs()]
    return store.experiments.import_finished(config.name, dict(raw), runs)


def _finished(config: RunConfig, extra: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> FinishedRun:
    simulation = Simulation(config)
    records = [round_record(result) for result in simulation.rounds()]
    rounds = [dataclasses.replace(r, arrays={**r.arrays, **extra}, scalars={**r.scalars, **scalars}) for r in records]
    return FinishedRun(
        new_run(config),
        "done",
        rounds,
        dataclasses.asdict(simulation.provenance),
        dataclasses.asdict(simulation.task.data.summary),
        simulation.summary(),
    )
