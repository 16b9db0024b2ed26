"""Runs that are trained together get the results that each gets alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.core.lockstep import Lockstep
from engine.core.registry import ALGORITHMS
from engine.core.results import RoundResult
from engine.simulation.simulate import Simulation
from engine.training import joint_seeds
from engine.training.joint_seeds import identity
from tests.support.builders import config
from tests.support.seeds import SEEDS, alone, assert_same_runs, at_once, data


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_every_method_gives_the_same_rounds_for_seeds_that_are_trained_together(name: str) -> None:
    changed = {"participation": 0.5, "local_epochs": 1, "model": {"name": "dnn", "hidden": 4}}
    assert_same_runs(alone(name, **changed), at_once(name, **changed))


FULL, MOMENTUM = {"batch_size": "full"}, {"momentum": 0.5, "weight_decay": 0.1}


@pytest.mark.parametrize(
    ("backend", "changed", "name"),
    [
        ("fused", FULL, "fedprox"),
        ("fused", MOMENTUM, "feddyn"),
        ("batched", FULL, "feddyn"),
        ("batched", MOMENTUM, "pfedme"),
        ("loop", FULL, "pfedme"),
        ("loop", MOMENTUM, "fedprox"),
    ],
)
def test_seeds_are_trained_together_with_every_backend(backend: str, changed: dict[str, Any], name: str) -> None:
    assert_same_runs(alone(name, backend=backend, **changed), at_once(name, backend=backend, **changed))


def test_batches_are_padded_with_samples_of_the_same_client() -> None:
    """FedRoD's loss of a class that a client does not have is infinite, also in padding of weight 0."""
    changed = {"backend": "batched", "batch_size": "full", "model": {"name": "dnn", "hidden": 4}}
    assert_same_runs(alone("fedrod", **changed), at_once("fedrod", **changed))


@pytest.fixture
def joint(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each joint local training had."""
    sizes: list[int] = []
    train_all = joint_seeds._train_all
    monkeypatch.setattr(joint_seeds, "_train_all", lambda runs: [sizes.append(len(runs)), train_all(runs)][1])
    return sizes


@pytest.mark.parametrize(
    ("name", "trainings"),
    [
        ("fedavg", 1),
        ("ditto", 2),
        ("scaffold", 1),
        ("pfedme", 1),
        ("fedrep", 2),
        ("gpfl", 1),
        ("plgu_lf", 1),
        ("apfl", 1),
        ("moon", 1),
    ],
)
def test_all_seeds_are_trained_at_once(name: str, trainings: int, joint: list[int]) -> None:
    at_once(name, model={"name": "dnn", "hidden": 4})
    assert joint == [len(SEEDS)] * trainings * 2  # rounds


def test_runs_with_clipped_gradients_are_trained_alone(joint: list[int]) -> None:
    changed: dict[str, Any] = {"clip_norm": 1.0}
    assert_same_runs(alone("fedavg", **changed), at_once("fedavg", **changed))
    assert joint == []


def test_a_run_that_stops_leaves_the_others_to_finish(joint: list[int]) -> None:
    class Cancelled(Exception):
        pass

    lockstep, results, stopped = Lockstep(), dict[int, list[RoundResult]](), list[int]()

    def member(seed: int) -> Callable[[], None]:
        ticks = iter(range(100))

        def tick() -> None:
            if seed == 1 and next(ticks) == 8:
                raise Cancelled

        def run() -> None:
            simulation = Simulation(config("fedavg", seed=seed), data=data(seed), lockstep=lockstep, tick=tick)
            try:
                results[seed] = list(simulation.rounds())
            except Cancelled:
                stopped.append(seed)

        return run

    lockstep.run([member(seed) for seed in SEEDS])
    assert stopped == [1] and sorted(results) == [0, 2]
    expected = alone("fedavg")
    assert_same_runs([expected[0], expected[2]], [results[0], results[2]])
    assert joint == [3, 3, 2] or joint == [3, 3]


def test_a_run_that_continues_at_another_round_is_trained_with_the_others() -> None:
    whole, lockstep, results = alone("ditto", rounds=4), Lockstep(), dict[int, list[RoundResult]]()

    def member(seed: int) -> Callable[[], None]:
        def run() -> None:
            first = Simulation(config("ditto", seed=seed, rounds=4), data=data(seed))
            for result in first.rounds():
                if result.round == seed:
                    break
            simulation = Simulation(config("ditto", seed=seed, rounds=4), data=data(seed), lockstep=lockstep)
            simulation.restore(first.checkpoint())
            results[seed] = list(simulation.rounds())

        return run

    lockstep.run([member(seed) for seed in SEEDS])
    assert_same_runs([whole[seed][seed + 1 :] for seed in SEEDS], [results[seed] for seed in SEEDS])


def test_objectives_are_the_same_if_their_code_and_their_numbers_are() -> None:
    def weighted(share: float) -> Any:
        return lambda model, params, x, y, weight, extras: share * x.sum()

    assert identity(weighted(0.5)) == identity(weighted(0.5)) != identity(weighted(0.6))
    assert identity(None) is None

    def by_default(share: float) -> Any:
        return lambda x, share=share: share * x.sum()

    assert identity(by_default(0.5)) == identity(by_default(0.5)) != identity(by_default(0.6))


def test_joined_data_has_the_clients_of_all_parts_and_shares_a_common_pool() -> None:
    first = data(0).train
    parts = [first, replace(first, rows=first.rows.flip(0)), data(1).train]
    task = replace(Simulation(config("fedavg"), data=data(0)).task, lockstep=Lockstep())
    joined = joint_seeds.joined_data([task] * 3, parts)
    assert joined.sizes.tolist() == [size for part in parts for size in part.sizes.tolist()]
    assert len(joined.pool.y) == len(first.pool.y) + len(parts[2].pool.y)
    expected = [part.of_client(i) for part in parts for i in range(part.num_clients)]
    for i, (x, y) in enumerate(expected):
        torch.testing.assert_close(joined.of_client(i), (x, y), rtol=0, atol=0)
    assert joint_seeds.joined_data([task] * 3, parts) is joined
