"""Runs of three seeds, with data of their own, each alone or all at once."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from engine.core.lockstep import Lockstep
from engine.core.results import RoundResult
from engine.federation.clients import Federation
from engine.simulation.simulate import Simulation
from tests.support.builders import SIZES, config, federation

SEEDS = (0, 1, 2)


def data(seed: int, **changed: Any) -> Federation:
    """Other samples for each seed, and other sizes of the clients."""
    sizes = tuple(SIZES[(i + seed) % len(SIZES)] + seed for i in range(len(SIZES)))
    return federation(sizes, seed=seed, **changed)


def run_of(seed: int, algorithm: dict[str, Any] | str, lockstep: Lockstep | None = None, **changed: Any) -> Simulation:
    own = data(seed, device=changed.get("device", "cpu"))
    return Simulation(config(algorithm, seed=seed, **changed), data=own, lockstep=lockstep)


def alone(algorithm: dict[str, Any] | str, **changed: Any) -> list[list[RoundResult]]:
    return [list(run_of(seed, algorithm, **changed).rounds()) for seed in SEEDS]


def at_once(algorithm: dict[str, Any] | str, **changed: Any) -> list[list[RoundResult]]:
    lockstep, results = Lockstep(), dict[int, list[RoundResult]]()

    def member(seed: int) -> Callable[[], None]:
        def run() -> None:
            results[seed] = list(run_of(seed, algorithm, lockstep, **changed).rounds())

        return run

    lockstep.run([member(seed) for seed in SEEDS])
    return [results[seed] for seed in SEEDS]


def assert_same_runs(
    first: Sequence[Sequence[RoundResult]], second: Sequence[Sequence[RoundResult]], tolerance: float = 1e-9
) -> None:
    """Equal up to rounding, but for times."""
    for a, b in zip(first, second, strict=True):
        for before, after in zip(a, b, strict=True):
            assert before.cohort.tolist() == after.cohort.tolist()
            assert before.arrays.keys() == after.arrays.keys()
            for name, array in before.arrays.items():
                torch.testing.assert_close(array, after.arrays[name], rtol=tolerance, atol=tolerance, equal_nan=True)
            scalars = {n: v for n, v in before.scalars.items() if not n.endswith("seconds")}
            assert scalars == pytest.approx(
                {n: after.scalars[n] for n in scalars}, rel=tolerance, abs=tolerance, nan_ok=True
            )
