"""What a run records: rounds, evaluation, summaries, and how models with nothing to say are shown."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine import evaluate
from engine.config import parse_experiment
from engine.errors import Unsupported
from engine.metrics import summarize_clients
from engine.registry import METRICS
from engine.simulate import Simulation, choose_device, simulate
from engine.task import Predictor
from tests.support.builders import beyond, federation, simulation, trained


def test_round_zero_is_the_untrained_model():
    results = list(simulation("fedavg", model={"name": "mlr", "init": "zeros"}, rounds=2).rounds())
    assert [r.round for r in results] == [0, 1, 2]
    np.testing.assert_allclose(results[0].arrays["global.loss"], np.log(3))
    assert len(results[0].cohort) == 0 and "train_loss" not in results[0].arrays


def test_rounds_are_evaluated_now_and_then_and_at_the_end():
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


def test_accuracy_is_the_share_of_test_samples_that_are_right():
    run = trained("local_train")
    values = run._evaluate()
    for i in range(run.task.num_clients):
        x, y = run.task.data.test.of_client(i)
        logits = run.task.model.logits(run.models().personalized[i], x)
        assert values["personalized.accuracy"][i] == pytest.approx(float((logits.argmax(1) == y).double().mean()))
        expected = torch.nn.functional.cross_entropy(logits, y)
        assert values["personalized.loss"][i] == pytest.approx(float(expected))


@pytest.mark.parametrize("is_per_client", [False, True])
def test_a_long_evaluation_can_be_stopped_between_its_slabs(monkeypatch, is_per_client):
    run = trained("fedavg")
    params = {n: p.expand(4, *p.shape) if is_per_client else p for n, p in run.state.global_params.items()}
    monkeypatch.setattr(evaluate, "_SLAB_BYTES", 1)
    ticks: list[int] = []
    task = replace(run.task, tick=lambda: ticks.append(1))
    evaluate.evaluate(task, Predictor(params, is_per_client), task.data.test)
    assert len(ticks) == (4 if is_per_client else len(task.data.test.y))


def test_a_shared_model_and_stacked_copies_of_it_score_the_same(monkeypatch):
    run = trained("fedavg")
    shared = Predictor(run.state.global_params, False)
    copies = Predictor({n: p.expand(4, *p.shape) for n, p in run.state.global_params.items()}, True)
    expected = evaluate.evaluate(run.task, shared, run.task.data.test)
    for slab in (1, 10**6):
        monkeypatch.setattr(evaluate, "_SLAB_BYTES", slab)
        for predictor in (shared, copies):
            for a, b in zip(evaluate.evaluate(run.task, predictor, run.task.data.test), expected, strict=True):
                np.testing.assert_allclose(a, b)


def test_a_predictor_may_bring_its_own_logits():
    run = trained("local_train")
    flipped = Predictor(run.state.personal_params, True, lambda p, x: -run.task.model.logits(p, x))
    plain = Predictor(run.state.personal_params, True)
    a, b = (evaluate.evaluate(run.task, p, run.task.data.test)[1] for p in (flipped, plain))
    assert not np.allclose(a, b)


def test_personalized_and_global_of_one_model_are_equal_but_no_aliases():
    run = simulation("fedavg")
    result = next(iter(run.rounds()))
    np.testing.assert_array_equal(result.arrays["personalized.accuracy"], result.arrays["global.accuracy"])


def test_the_best_round_is_the_first_with_the_largest_weighted_mean():
    run = simulation("fedavg", rounds=6, lr=0.5)
    scores = [r.scalars["global.weighted_mean"] for r in run.rounds()]
    best = run.summary()["best"]["global"]
    assert best["round"] == int(np.argmax(scores)) and best["weighted_mean"] == max(scores)
    assert run.summary()["global"]["weighted_mean"] == scores[-1]


def test_a_method_without_a_global_model_says_so():
    run = trained("local_train")
    assert run.summary()["global"] is None and run.summary()["best"]["global"] is None
    assert run.models().global_model is None


def test_the_best_models_are_kept_beside_the_last():
    run = trained("fedavg", rounds=6, lr=0.5)
    if run.best["personalized"].round != 6:
        assert not torch.equal(run.models("best").global_model["head.weight"], run.models().global_model["head.weight"])
    assert len(run.models("best").personalized) == 4


def test_bytes_count_one_model_down_and_up_for_each_participant():
    result = list(simulation("fedavg", participation=0.5).rounds())[1]
    assert result.scalars["bytes_up"] == result.scalars["bytes_down"] == 2 * (3 * 5 + 3) * 8


def test_a_nan_in_the_data_diverges_at_its_round():
    data = federation()
    data.train.x[0] = float("nan")
    results = list(simulation("local_train", data, rounds=5).rounds())
    assert results[-1].diverged == "the training loss of client 0 is not finite"
    accuracy = results[-1].arrays["personalized.accuracy"]
    assert np.isnan(accuracy[0]) and not np.isnan(accuracy[1:]).any()


def synthetic(partition="natural", **changed):
    raw = {
        "dataset": {"name": "synthetic", "samples_per_client": 40},
        "partition": partition,
        "model": "logistic",
        "training": {"rounds": 1, "dtype": "float64"},
        "algorithms": ["fedavg", "local_train"],
    }
    return [Simulation(c) for c in parse_experiment(raw | changed).runs()]


def test_total_error_is_recorded_where_the_truth_is_known():
    fedavg, local = synthetic()
    result = list(fedavg.rounds())[-1]
    truth = fedavg.task.data.truth["weights"]
    w = fedavg.state.global_params["head.weight"][0].numpy()
    np.testing.assert_allclose(result.arrays["global.total_error"], ((w - truth.mean(0)) ** 2).sum())
    np.testing.assert_allclose(result.arrays["personalized.total_error"], ((w - truth) ** 2).sum(1))
    own = list(local.rounds())[-1].arrays["personalized.total_error"]
    w = local.state.personal_params["head.weight"][:, 0].numpy()
    np.testing.assert_allclose(own, ((w - truth) ** 2).sum(1))


@pytest.mark.parametrize("clients", [10, 20])
def test_clients_that_were_mixed_have_no_truth(clients):
    fedavg, _ = synthetic({"name": "iid", "num_clients": clients})
    assert fedavg.task.data.truth is None
    assert "global.total_error" not in list(fedavg.rounds())[-1].arrays


def test_a_shared_model_that_is_not_finite_ends_the_run_in_its_round():
    run = beyond({"name": "ditto", "personal_lr": 0.01}, model="dnn", training={"lr": 1e300}, rounds=9)
    results = list(run.rounds())
    assert results[-1].round == 1 and "not finite" in results[-1].diverged


def test_a_round_that_failed_is_not_the_best(monkeypatch):
    run = simulation("fedavg", rounds=1)
    monkeypatch.setattr(run, "_training_failed", lambda *_: "it broke")
    assert list(run.rounds())[-1].diverged == "it broke" and run.summary()["best"]["global"]["round"] == 0


def test_starting_a_network_at_zero_is_warned_of():
    assert any("zeros" in n for n in simulation("fedavg", model={"name": "dnn", "init": "zeros"}).task.notes)


def test_too_large_a_step_is_warned_of():
    assert any("above 2" in n for n in simulation({"name": "ditto", "lam": 100}).task.notes)
    assert not simulation({"name": "ditto", "lam": 0.1}).task.notes


def test_asking_for_an_absent_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Unsupported, match="device: cpu or auto"):
        choose_device("cuda")


def test_summaries_over_clients_have_known_values():
    values, weights = np.array([0.2, 0.4, np.nan, 0.9]), np.array([1, 1, 0, 2])
    found = summarize_clients(values, weights)
    assert found == pytest.approx(
        {"mean": 0.5, "weighted_mean": 0.6, "lowest5": 0.2, "top5": 0.9, "std": 0.294392, "cv": 0.588784}, rel=1e-5
    )
    assert set(found) == set(METRICS.names())


def test_tails_are_means_of_five_percent_of_the_clients():
    found = summarize_clients(np.arange(40) / 100, np.ones(40))
    assert found["lowest5"] == pytest.approx(0.005) and found["top5"] == pytest.approx(0.385)
