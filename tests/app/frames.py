"""Small tables with results that can be computed by hand."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from storage import RunRecord


def clients(test_size: int = 10, **accuracies: list[list[float]]) -> pd.DataFrame:
    """``a=[[clients of seed 0], [clients of seed 1]]`` as a table for charts, with ``test_size`` test samples each."""
    rows = []
    run = 0
    for method, seeds in accuracies.items():
        for seed, values in enumerate(seeds):
            run += 1
            rows += [
                {
                    "run": run,
                    "method": method,
                    "algorithm": method,
                    "split": seed,
                    "seed": seed,
                    "client": i,
                    "accuracy": value,
                    "test_size": test_size,
                }
                for i, value in enumerate(values)
            ]
    return pd.DataFrame(rows)


def series(method: str, seed: int, **values: list[float]) -> pd.DataFrame:
    """``mean=[...]`` over rounds 0, 1, ...; ``mean`` and ``lowest5`` are those of the personalized model."""
    rows = [
        {
            "run": seed,
            "method": method,
            "algorithm": method,
            "split": seed,
            "seed": seed,
            "round": at,
            "value": value,
            "name": f"personalized.{name}" if name in ("mean", "lowest5") else name,
        }
        for name, own in values.items()
        for at, value in enumerate(own)
    ]
    return pd.DataFrame(rows)


def run_record(run_id: int, label: str = "ditto", seed: int = 0, **changes: Any) -> RunRecord:
    """A finished run; ``dataset``, ``partition``, ``model`` and ``algorithm_options`` configure it."""
    algorithm = changes.pop("algorithm", label.split(" ")[0])
    config = {
        "seed": seed,
        "label": label,
        "algorithm": {"name": algorithm, **changes.pop("algorithm_options", {})},
        "dataset": changes.pop("dataset", {"name": "digits"}),
        "training": {"rounds": 5, "lr": 0.05},
        "partition": changes.pop("partition_config", {"name": "iid", "num_clients": 4}),
        "model": changes.pop("model", {"name": "mlr"}),
    }
    run = RunRecord(
        id=run_id,
        experiment_id=1,
        experiment_name="first",
        position=run_id,
        algorithm=algorithm,
        label=label,
        seed=seed,
        hparams={},
        config=config,
        digest="",
        status="done",
        rounds=5,
        round=5,
        epoch=1,
        control="",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        started_at=None,
        finished_at=None,
        heartbeat_at=None,
        seconds_per_round=None,
        error=None,
        worker=None,
        provenance=None,
        partition=None,
        summary=None,
        archived=False,
        example=False,
    )
    return replace(run, **changes)
