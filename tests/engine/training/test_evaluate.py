"""Accuracy and loss of shared and of personalized models."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from engine.task import Predictor
from engine.training import evaluate
from tests.support.builders import trained


def test_accuracy_is_the_share_of_correct_test_samples():
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
    task = replace(run.task, tick=partial(ticks.append, 1))
    evaluate.evaluate(task, Predictor(params, is_per_client), task.data.test)
    assert len(ticks) == task.data.test.num_samples


@pytest.mark.parametrize("is_per_client", [False, True])
def test_models_with_wide_intermediate_results_evaluate_fewer_samples_at_once(monkeypatch, is_per_client):
    run = trained("fedavg")
    params = {n: p.expand(4, *p.shape) if is_per_client else p for n, p in run.state.global_params.items()}
    slab = 8 * 1000  # 1000 values in double precision
    monkeypatch.setattr(evaluate, "_SLAB_BYTES", slab)
    calls = []
    for widest in (0, 1000):
        monkeypatch.setattr(run.task.model.module, "widest", widest)
        ticks: list[int] = []
        task = replace(run.task, tick=partial(ticks.append, 1))
        evaluate.evaluate(task, Predictor(params, is_per_client), task.data.test)
        calls.append(len(ticks))
    assert calls[0] < calls[1] == run.task.data.test.num_samples


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


def test_a_predictor_may_define_its_logits():
    run = trained("local_train")
    flipped = Predictor(run.state.personal_params, True, lambda p, x: -run.task.model.logits(p, x))
    plain = Predictor(run.state.personal_params, True)
    a, b = (evaluate.evaluate(run.task, p, run.task.data.test)[1] for p in (flipped, plain))
    assert not np.allclose(a, b)
