"""Clients that never train: when they get a model, and where its results are recorded."""

from typing import Any

import pytest
import torch

from engine.algorithms import AdaptsToNewcomers, Algorithm
from engine.config.schema import parse_experiment
from engine.simulation.simulate import Simulation
from tests.support.builders import (
    assert_equal,
    federation,
    shared_model,
    simulation,
    trained,
    unchecked_simulation,
    with_newcomers,
)
from tests.support.settings import HOLDOUT


def test_newcomers_do_not_change_training():
    with_them, without = (trained("fedavg", data) for data in (with_newcomers(), federation()))
    assert_equal(shared_model(with_them), shared_model(without))


def test_extra_steps_of_newcomers_use_their_own_stream():
    """Not that of the clients that train."""
    run = simulation({"name": "ditto", "lam": 0.0, "personal_steps": 1}, with_newcomers())
    task = run.task.of_unseen()
    once = task.everyone(stream="newcomers", steps=1).plan
    assert torch.equal(task.same_batches(task.everyone(stream="newcomers"), 1).rows, once.rows)
    assert not torch.equal(once.rows, task.everyone(steps=1).plan.rows)


def test_the_last_round_and_the_summary_contain_newcomers():
    run = simulation("local_train", with_newcomers())
    *earlier, last = run.rounds()
    assert not any("unseen.accuracy" in r.arrays for r in earlier)
    assert last.arrays["unseen.accuracy"].shape == last.arrays["unseen.loss"].shape == (3,)
    assert run.summary()["unseen"]["mean"] == pytest.approx(last.arrays["unseen.accuracy"].mean())
    assert last.scalars["unseen.mean"] == run.summary()["unseen"]["mean"]


def test_without_newcomers_the_summary_has_no_unseen_clients():
    run = trained("local_train")
    assert "unseen" not in run.summary()


def test_newcomers_start_at_the_learning_rate_of_the_first_round():
    losses = []
    for schedule in ("constant", "cosine"):
        *_, last = simulation("local_train", with_newcomers(), rounds=3, lr_schedule=schedule).rounds()
        losses.append(last.arrays["unseen.loss"].tolist())
    assert losses[0] == losses[1]


def test_a_diverged_run_does_not_adapt():
    run = unchecked_simulation("local_train", with_newcomers(), training={"lr": 1e308}, rounds=50, local_steps=5)
    *_, last = run.rounds()
    assert last.diverged and "unseen.accuracy" not in last.arrays


@pytest.mark.parametrize(("method", "has_model"), [("fedavg", True), ("local_train", False)])
def test_without_adapted_newcomers_get_the_global_model_or_a_note(method: str, has_model: bool):
    class WithoutAdapted:
        """Everything of ``method`` except ``adapted``."""

        def __init__(self, own: Any) -> None:
            for name in ("init", "round", "personalized", "global_model", "shared"):
                setattr(self, name, getattr(own, name))

    run = simulation(method, with_newcomers())
    assert isinstance(run.algorithm, AdaptsToNewcomers) and not hasattr(Algorithm, "adapted")
    run.algorithm = WithoutAdapted(run.algorithm)
    *_, last = run.rounds()
    assert ("unseen.accuracy" in last.arrays) == has_model
    assert any("never took part" in note for note in run.task.notes) != has_model


def test_a_checkpoint_of_the_last_round_restores_the_summary_of_newcomers():
    config = parse_experiment(HOLDOUT | {"algorithms": ["local_train"]}).runs()[0]
    run, again = Simulation(config), Simulation(config)
    for _ in run.rounds():
        pass
    again.restore(run.checkpoint())
    assert again.summary()["unseen"] == run.summary()["unseen"]
