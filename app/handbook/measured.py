"""The measured cost of a method: short rounds on digits, counted and never timed.

Bytes are multiples of the model size and gradient evaluations relative to FedAvg's, so that both hold for other models
and data.
"""

import time
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from statistics import fmean
from typing import Any, Literal

import torch

from engine.config.schema import parse_experiment
from engine.core.registry import Entry
from engine.core.vocabulary import COUNTS
from engine.federation.clients import Federation
from engine.simulation.simulate import Simulation
from engine.task import Predictor

Common = Literal["none", "one", "one for each group"]
FIRST, ROUNDS = 3, 42  # the first round without one-off costs; the last one, of methods whose rounds differ
UNIT = "fedavg"
SETTING = (
    "a network with one hidden layer of 20 units on digits, 2 clients, 10 local steps. One-off costs of the first two "
    "rounds are left out; ≈ marks the mean of rounds that differ"
)
SMALL: dict[str, Any] = {
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 2, "public_fraction": 0.6},  # some methods need 1,000 samples
    "model": {"name": "dnn", "hidden": 20},
    "training": {"rounds": ROUNDS, "local_steps": 10, "batch_size": 20, "lr": 0.05},
    "evaluation": {"every": ROUNDS},
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
    varies: bool = False  # the costs are means of rounds that differ


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
    return _can_start(name, _federation(), model="mlr")


@cache
def needs_public_samples(name: str) -> bool:
    return not _can_start(name, replace(_federation(), public=None)) and _can_start(name, _federation())


def _can_start(name: str, data: Federation, **changed: Any) -> bool:
    try:
        _simulation(name, data, **changed)
    except Exception:  # noqa: BLE001  as above
        return False
    return True


def _measured(entry: Entry) -> Measured:
    run = _simulation(entry.name, _federation())
    (up, down, gradients), varies = _costs(run)
    method, task = run.algorithm, run.task
    one_model = sum(p.nbytes for p in task.initial_model().values()) * task.num_clients
    return Measured(
        is_personalized=method.personalized(run.state, task).is_per_client,
        common=_common(method.global_model(run.state, task)),
        down=down / one_model,
        up=up / one_model,
        gradients=gradients / _unit(),
        varies=varies,
    )


def _common(model: Predictor | None) -> Common:
    if model is None:
        return "none"
    return "one for each group" if model.is_per_client else "one"


@cache
def _unit() -> float:
    """FedAvg's gradient evaluations."""
    (*_, gradients), _ = _costs(_simulation(UNIT, _federation()))
    return gradients


def _simulation(name: str, data: Federation | None = None, **changed: Any) -> Simulation:
    """A run of the method on ``SMALL`` with these changes; None builds the data."""
    run = parse_experiment(SMALL | changed | {"algorithms": [name]}).runs()[0]
    until = time.monotonic() + BUDGET_S

    def tick() -> None:
        if time.monotonic() > until:
            raise TimeoutError(f"{name} takes longer than {BUDGET_S:g} s")

    return Simulation(run, data=data, tick=tick)


@cache
def _federation() -> Federation:
    return _simulation(UNIT).task.data


def _costs(run: Simulation) -> tuple[list[float], bool]:
    """``COUNTS`` of a round, and whether rounds differ: then these are means.

    The first two rounds may have costs of their own: there some methods choose settings or learn weights.
    """
    counted: list[list[float]] = []
    for result in run.rounds():
        if result.round:
            counted.append([result.scalars[name] for name in COUNTS])
        if result.round in (FIRST, FIRST + 1) and counted[-1] == counted[-2]:
            return counted[-1], False
    return [fmean(cost) for cost in zip(*counted[FIRST - 1 :], strict=True)], True
