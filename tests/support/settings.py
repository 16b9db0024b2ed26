"""Settings that the tests of several methods share."""

from typing import Any

DNN: dict[str, Any] = {"name": "dnn", "hidden": 6}
PFEDME: dict[str, Any] = {"name": "pfedme", "lam": 5.0, "inner_steps": 3, "personal_lr": 0.1}
CGPFL: dict[str, Any] = PFEDME | {"name": "cgpfl"}
UNEQUAL_STEPS: list[dict[str, Any]] = [{"local_steps": 3}, {"local_epochs": 2}]
VARIED_TRAINING: list[dict[str, Any]] = [
    {},
    {"momentum": 0.9, "weight_decay": 0.1},
    {"local_epochs": 2, "participation": 0.5},
    {"model": {"name": "mlr", "l2": 0.3}, "batch_size": "full"},
]
HOLDOUT: dict[str, Any] = {
    "name": "newcomers",
    "dataset": "digits",
    "partition": {"name": "classes_per_client", "num_clients": 10, "assignment": "cyclic", "holdout_clients": 0.3},
    "model": "mlr",
    "training": {"rounds": 2, "local_steps": 3},
    "algorithms": ["fedavg", {"name": "cgpfl", "K": 2}],
}
