"""The measured cost of a method: short rounds on digits, counted and never timed.

Bytes are multiples of the model size: whole ones hold for other networks, others for the measured one only. Gradient
evaluations are relative to FedAvg's, for the same local steps and samples.
"""

import time
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from statistics import fmean
from typing import Any, Literal

from app.data.entry_text import needs
from engine.config.schema import parse_experiment
from engine.core.devices import limited_threads
from engine.core.registry import Entry
from engine.core.vocabulary import COUNTS
from engine.federation.clients import Federation
from engine.simulation.simulate import Simulation
from engine.task import Predictor

Common = Literal["none", "one", "one for each group"]
FIRST, ROUNDS = 3, 42  # the first round without one-off costs; the last one, of methods whose rounds differ
UNIT = "fedavg"
LEFT_OUT = "One-off costs of the first two rounds are left out; ≈ marks the mean of rounds that differ"
NETWORK: dict[str, Any] = {"name": "dnn", "hidden": 20}
WITH_NORMALIZATIONS: dict[str, Any] = {"name": "resnet18", "width": 2}
SMALL: dict[str, Any] = {
    "dataset": "digits",
    "evaluation": {"every": ROUNDS},
    "device": "cpu",
    "backend": "loop",  # the fastest for so little, and the only one that never loads torch's compiler
}
BUDGET_S = 20.0  # ample: the methods that ship take a hundredth of it
MANY_CLIENTS = 8  # for methods that are sent models of several others


@dataclass(frozen=True)
class Setting:
    """What a method is measured on."""

    num_clients: int = 2
    has_normalizations: bool = False

    @property
    def local_steps(self) -> int:
        return 2 if self.has_normalizations else 10  # such a network takes a hundred times as long

    @property
    def in_words(self) -> str:
        network = "a small ResNet-18" if self.has_normalizations else "a network with one hidden layer of 20 units"
        return f"{network} on digits, {self.num_clients} clients, {self.local_steps} local steps"

    @property
    def config(self) -> dict[str, Any]:
        public = {"public_fraction": 0.6}  # some methods need 1,000 samples
        return SMALL | {
            "partition": {"name": "iid", "num_clients": self.num_clients, **public},
            "model": WITH_NORMALIZATIONS if self.has_normalizations else NETWORK,
            "training": {"rounds": ROUNDS, "local_steps": self.local_steps, "batch_size": 20, "lr": 0.05},
        }


@dataclass(frozen=True)
class Measured:
    """Per round and participant. Bytes are multiples of the model size, gradients relative to FedAvg's."""

    is_personalized: bool
    common: Common
    down: float
    up: float
    gradients: float
    varies: bool = False  # the costs are means of rounds that differ
    setting: Setting = field(default=Setting(), compare=False)

    def depends_on_network(self, multiple: float) -> bool:
        """Whether bytes are a part of the model, or something else in addition: then other networks have others."""
        return not self.varies and round(multiple, 2) != round(multiple)


@lru_cache(maxsize=200)
def measured(entry: Entry) -> Measured | None:
    """Measured once per process; None for a method that cannot train such a small network in time."""
    with limited_threads(1):  # several would only wait for one another
        try:
            return _measured(entry)
        except Exception:  # noqa: BLE001  a file of the user's own may fail in any way, and its page opens all the same
            return None


@cache
def takes_linear_model(name: str) -> bool:
    """Whether the method can train ``mlr``, which has no body."""
    return _can_start(name, _federation(), model={"name": "mlr"})


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
    costs, is_limited = _measured_on(Setting(has_normalizations="normalizations" in needs(entry)), entry)
    if not is_limited:
        return costs
    with_many, _ = _measured_on(replace(costs.setting, num_clients=MANY_CLIENTS), entry)
    return replace(with_many, gradients=costs.gradients)  # of full batches: many clients have few samples each


def _measured_on(setting: Setting, entry: Entry) -> tuple[Measured, bool]:
    """The costs, and whether the method would send more with more clients."""
    run = _simulation(entry.name, _federation(setting.num_clients), setting)
    (up, down, gradients), varies = _costs(run)
    method, task = run.algorithm, run.task
    own, common = method.personalized(run.state, task), method.global_model(run.state, task)
    one_model = sum(p.nbytes for p in task.initial_model().values()) * task.num_clients
    costs = Measured(
        is_personalized=own.is_per_client and (common is None or own.params is not common.params),
        common=_common(common),
        down=down / one_model,
        up=up / one_model,
        gradients=gradients / _unit(setting),
        varies=varies,
        setting=setting,
    )
    return costs, not varies and down < method.shared(run.state).bytes_down * task.num_clients


def _common(model: Predictor | None) -> Common:
    if model is None:
        return "none"
    return "one for each group" if model.is_per_client else "one"


@cache
def _unit(setting: Setting) -> float:
    """FedAvg's gradient evaluations."""
    (*_, gradients), _ = _costs(_simulation(UNIT, _federation(setting.num_clients), setting, model=NETWORK))
    return gradients


def _simulation(name: str, data: Federation | None = None, setting: Setting = Setting(), **changed: Any) -> Simulation:
    """A run of the method with these changes of the setting; None builds the data."""
    run = parse_experiment(setting.config | changed | {"algorithms": [name]}).runs()[0]
    until = time.monotonic() + BUDGET_S

    def tick() -> None:
        if time.monotonic() > until:
            raise TimeoutError(f"{name} takes longer than {BUDGET_S:g} s")

    return Simulation(run, data=data, tick=tick)


@cache
def _federation(num_clients: int = Setting.num_clients) -> Federation:
    return _simulation(UNIT, setting=Setting(num_clients)).task.data


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
