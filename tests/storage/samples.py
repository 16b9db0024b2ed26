"""Small runs and rounds to store."""

from typing import Any

import numpy as np

from storage import NewRun, RoundRecord, Store


def new_run(seed: int = 0, **changes: Any) -> NewRun:
    values = {
        "algorithm": "ditto",
        "label": "Ditto",
        "seed": seed,
        "hparams": {"lam": 1.0},
        "config": {
            "algorithm": {"name": "ditto", "lam": 1.0},
            "dataset": {"name": "digits"},
            "partition": {"name": "iid", "num_clients": 4},
            "model": {"name": "mlr"},
            "training": {"rounds": 5, "lr": 0.1},
        },
        "rounds": 5,
        "digest": f"digest-{seed}",
    }
    return NewRun(**(values | changes))


def a_round(round: int, clusters: list[int] | None = None) -> RoundRecord:
    """The accuracy of client n in round r is r + n / 10."""
    accuracy = (round + np.arange(4) / 10).astype(np.float32)
    return RoundRecord(
        round,
        cohort=np.array([0, 2], dtype=np.int32),
        scalars={"seconds": 0.5 * round, "personalized.mean": np.nan},
        arrays={"personalized.accuracy": accuracy, "diagnostics.cost": np.float64([[round, 1], [2, 3]])},
        clusters=None if clusters is None else np.array(clusters, dtype=np.int16),
        evaluated=round % 2 == 0,
    )


def create(store: Store, num_runs: int) -> list[int]:
    """Creates an experiment of queued runs and returns their ids."""
    store.experiments.create("x", {}, [new_run(seed) for seed in range(num_runs)])
    return [run.id for run in store.queue.runs(newest_first=False)]
