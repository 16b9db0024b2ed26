"""What a run records: rounds, evaluations, summaries, and the reason it ended."""

import itertools

import numpy as np
import pytest
import torch

from engine.config.schema import parse_experiment
from engine.core.errors import Unsupported
from engine.simulation.simulate import choose_device, simulate
from tests.support.builders import (
    assert_close,
    federation,
    shared_model,
    simulation,
    trained,
    unchecked_simulation,
)


def test_round_zero_is_the_untrained_model():
    results = list(simulation("fedavg", model={"name": "mlr", "init": "zeros"}, rounds=2).rounds())
    assert [r.round for r in results] == [0, 1, 2]
    np.testing.assert_allclose(results[0].arrays["global.loss"], np.log(3))
    assert len(results[0].cohort) == 0 and "train_loss" not in results[0].arrays


def test_tf32_is_float32_on_a_cpu():
    data = federation(dtype=torch.float32)
    exact, rounded = (trained("fedavg", data, dtype=dtype) for dtype in ("float32", "tf32"))
    assert exact.config.digest != rounded.config.digest and rounded.task.dtype == torch.float32
    assert_close(shared_model(exact), shared_model(rounded), 0)


@pytest.mark.parametrize("backend", ["auto", "loop"])
def test_bfloat16_keeps_models_in_float32_and_is_less_exact(backend: str):
    data = federation(dtype=torch.float32)
    exact, rounded = (
        shared_model(trained("fedavg", data, model={"name": "dnn", "hidden": 4}, dtype=dtype, backend=backend))
        for dtype in ("float32", "bfloat16")
    )
    assert {p.dtype for p in rounded.values()} == {torch.float32}
    assert_close(rounded, exact, 0.02)
    with pytest.raises(AssertionError):
        assert_close(rounded, exact, 1e-6)


@pytest.mark.parametrize("name", ["fedmd", "fedproto"])
def test_bfloat16_trains_models_without_a_body(name: str):
    last = list(simulation(name, federation(dtype=torch.float32), dtype="bfloat16").rounds())[-1]
    assert last.diverged is None


def test_rounds_are_evaluated_periodically_and_at_the_end():
    raw = {
        "dataset": "digits",
        "partition": {"name": "iid", "num_clients": 3},
        "model": "mlr",
        "training": {"rounds": 5, "local_steps": 1},
        "algorithms": ["fedavg"],
        "evaluation": {"every": 3},
    }
    results = list(simulate(parse_experiment(raw).runs()[0]))
    assert [r.evaluated for r in results] == [True, False, False, True, False, True]
    assert ["global.loss" in r.arrays for r in results] == [r.evaluated for r in results]


def test_personalized_and_global_results_of_one_model_are_equal_copies():
    run = simulation("fedavg")
    result = next(iter(run.rounds()))
    np.testing.assert_array_equal(result.arrays["personalized.accuracy"], result.arrays["global.accuracy"])


def test_the_best_round_is_the_first_with_the_largest_weighted_mean():
    run = simulation("fedavg", rounds=6, lr=0.5)
    scores = [r.scalars["global.weighted_mean"] for r in run.rounds()]
    best = run.summary()["best"]["global"]
    assert best["round"] == int(np.argmax(scores)) and best["weighted_mean"] == max(scores)
    assert run.summary()["global"]["weighted_mean"] == scores[-1]


def test_a_method_without_a_global_model_has_none_in_its_summary():
    run = trained("local_train")
    assert run.summary()["global"] is None and run.summary()["best"]["global"] is None
    assert run.models().global_model is None


def test_a_restored_run_has_the_summary_of_its_checkpoint():
    first, second = simulation("fedavg", rounds=3), simulation("fedavg", rounds=3)
    for _ in itertools.islice(first.rounds(), 3):
        pass
    second.restore(first.checkpoint())
    assert second.summary() == first.summary() and second.summary()["personalized"] is not None


def test_both_the_best_and_the_last_models_are_available():
    run = trained("fedavg", rounds=6, lr=0.5)
    if run.best["personalized"].round != 6:
        assert not torch.equal(run.models("best").global_model["head.weight"], run.models().global_model["head.weight"])
    assert len(run.models("best").personalized) == 4


def test_bytes_count_one_model_down_and_up_per_participant():
    result = list(simulation("fedavg", participation=0.5).rounds())[1]
    assert result.scalars["bytes_up"] == result.scalars["bytes_down"] == 2 * (3 * 5 + 3) * 8


def test_a_nan_in_the_data_makes_the_run_diverge():
    data = federation()
    data.train.pool.x[data.train.rows[0]] = float("nan")
    results = list(simulation("local_train", data, rounds=5).rounds())
    assert results[-1].diverged == "the training loss of client 0 is not finite"
    accuracy = results[-1].arrays["personalized.accuracy"]
    assert np.isnan(accuracy[0]) and not np.isnan(accuracy[1:]).any()


def test_a_non_finite_shared_model_ends_the_run_in_its_round():
    run = unchecked_simulation({"name": "ditto", "personal_lr": 0.01}, model="dnn", training={"lr": 1e300}, rounds=9)
    results = list(run.rounds())
    assert results[-1].round == 1 and "not finite" in results[-1].diverged


def test_a_failed_round_is_not_the_best(monkeypatch):
    run = simulation("fedavg", rounds=1)
    monkeypatch.setattr(run, "_training_failed", lambda *_: "it broke")
    assert list(run.rounds())[-1].diverged == "it broke" and run.summary()["best"]["global"]["round"] == 0


def test_a_network_initialized_at_zero_causes_a_warning():
    assert any("zeros" in n for n in simulation("fedavg", model={"name": "dnn", "init": "zeros"}).task.notes)


def test_too_large_a_step_causes_a_warning():
    assert any("above 2" in n for n in simulation({"name": "ditto", "lam": 100}).task.notes)
    assert not simulation({"name": "ditto", "lam": 0.1}).task.notes


def test_an_absent_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Unsupported, match="device: cpu or auto"):
        choose_device("cuda")
