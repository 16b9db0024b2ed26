"""Runs as storage returns them, without a database."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from storage import RunRecord


def run_record(run_id: int, label: str = "ditto", seed: int = 0, **changes: Any) -> RunRecord:
    """A finished run; ``dataset``, ``partition``, ``model`` and ``algorithm_options`` go into its configuration."""
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
