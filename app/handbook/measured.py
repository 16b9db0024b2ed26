"""The measured cost of a method: one short round on digits, counted and never timed.

Bytes are multiples of the model size and gradient evaluations relative to FedAvg's, so that both hold for other models
and data.
"""

import time
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import torch

from engine.config.schema import parse_experiment
from engine.core.registry import Entry
from engine.federation.clients import Federation
from engine.simulation.simulate import Simulation
from engine.task import Predictor

Common = Literal["none", "one", "one for each group"]
UNIT = "fedavg"
SETTING = "a network with one hidden layer of 20 units on digits, 2 clients, 10 local steps"
SMALL: dict[str, Any] = {
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 2, "public_fraction": 0.6},  # some methods need 1,000 samples
    "model": {"name": "dnn", "hidden": 20},
    "training": {"rounds": 2, "local_steps": 10, "batch_size": 20, "lr": 0.05},
    "device": "cpu",
    "backend": "loop",  # the fastest for so little, and the only one that never loads torch's compiler
}
BUDGET_S = 20.0  # ample: the methods that ship take a hundredth of it


@dataclass(frozen=True)
class Measured:
    """Per round and participant. Bytes are multiples of the model size, gradients relative to FedAvg's."""

    is_personalized: bool
    common: Common
    down: float
    up: float
    gradients: float


@lru_cache(maxsize=200)
def measured(entry: Entry) -> Measured | None:
    """Measured once per process; None for a method that cannot train such a small network in time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would only wait for one another
    try:
        return _measured(entry)
    except Exception:  # noqa: BLE001  a file of the user's own may fail in any way, and its page opens all the same
        return None
    finally:
        torch.set_num_threads(threads)


@cache
def takes_linear_model(name: str) -> bool:
    """Whether the method can train ``mlr``, which has no body."""
    try:
        _simulation(name, model="mlr")
    except Exception:  # noqa: BLE001  as above
        return False
    return True


def _measured(entry: Entry) -> Measured:
    run = _simulation(entry.name)
    scalars = _second_round(run)
    method, task = run.algorithm, run.task
    one_model = sum(p.nbytes for p in task.initial_model().values()) * task.num_clients
    return Measured(
        is_personalized=method.personalized(run.state, task).is_per_client,
        common=_common(method.global_model(run.state, task)),
        down=scalars["bytes_down"] / one_model,
        up=scalars["bytes_up"] / one_model,
        gradients=scalars["gradient_evaluations"] / _unit(),
    )


def _common(model: Predictor | None) -> Common:
    if model is None:
        return "none"
    return "one for each group" if model.is_per_client else "one"


@cache
def _unit() -> float:
    """FedAvg's gradient evaluations."""
    return _second_round(_simulation(UNIT))["gradient_evaluations"]


def _simulation(name: str, **changed: Any) -> Simulation:
    run = parse_experiment(SMALL | changed | {"algorithms": [name]}).runs()[0]
    until = time.monotonic() + BUDGET_S

    def tick() -> None:
        if time.monotonic() > until:
            raise TimeoutError(f"{name} takes longer than {BUDGET_S:g} s")

    return Simulation(run, data=None if name == UNIT else _federation(), tick=tick)


@cache
def _federation() -> Federation:
    return _simulation(UNIT).task.data


def _second_round(run: Simulation) -> dict[str, float]:
    """The first is where some methods choose their settings."""
    *_, last = run.rounds()
    return last.scalars
