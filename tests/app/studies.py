"""A small study, computed by a dispatcher in this process and stored."""

import threading
from collections.abc import Mapping
from typing import Any

from engine.config.schema import parse_experiment
from engine.exchange.records import new_runs
from engine.worker import Dispatcher
from storage import ExperimentRecord, Store
from tests.worker.test_dispatcher_kill_points import InPlace

STUDY: dict[str, Any] = {
    "name": "small study",
    "dataset": "digits",
    "partition": {
        "name": "classes_per_client",
        "num_clients": 6,
        "classes_per_client": 3,
        "val_fraction": 0.2,
        "test_fraction": 0.25,
    },
    "model": "mlr",
    "training": {"rounds": 2, "local_steps": 3, "lr": 0.05},
    "algorithms": ["local_train", "fedavg", "ditto"],
    "splits": [0, 1, 2],
    "seeds": [0],
    "tune": {"trials": 2},
}


def queue_study(store: Store, raw: Mapping[str, Any] = STUDY) -> ExperimentRecord:
    config = parse_experiment(raw)
    return store.experiments.create(config.name, config.raw, new_runs(config))


def compute(store: Store) -> None:
    """Computes all that is queued."""
    with Dispatcher(store, InPlace(store), store.try_dispatcher_lock()) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
