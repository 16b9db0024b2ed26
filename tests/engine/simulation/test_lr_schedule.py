"""Learning-rate schedules: the rate of each round, and which steps follow it."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from engine.config.options import Training
from tests.support import reference
from tests.support.builders import assert_equal, personalized, shared_model, simulation, trained
from tests.support.reference import as_matrix, batches_of


def test_the_learning_rate_of_a_round():
    cosine = Training(rounds=4, lr=1.0, lr_schedule="cosine")
    assert [cosine.in_round(r).lr for r in range(5)] == pytest.approx([1, 1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5])
    step = Training(rounds=9, lr=0.8, lr_schedule="step", lr_decay=0.5, lr_decay_rounds=3)
    assert [step.in_round(r).lr for r in (0, 1, 3, 4, 6, 7)] == pytest.approx([0.8, 0.8, 0.8, 0.4, 0.4, 0.2])
    constant = Training(rounds=9)
    assert constant.in_round(7) is constant


def test_a_decayed_rate_stays_above_zero():
    run = simulation({"name": "scaffold"}, rounds=4, lr_schedule="step", lr_decay=1e-200, lr_decay_rounds=1)
    results = list(run.rounds())
    assert run.task.training.lr > 0
    assert not any(r.diverged for r in results)


def test_a_scheduled_round_trains_at_its_rate():
    halved = {"lr_schedule": "step", "lr_decay": 0.5, "lr_decay_rounds": 1}
    run = trained("local_train", rounds=3, **halved)
    start = as_matrix(run.task.initial_model())
    rounds = [batches_of(run, r) for r in (1, 2, 3)]
    for i, found in enumerate(as_matrix(personalized(run))):
        W = start
        for batches, lr in zip(rounds, (0.1, 0.05, 0.025), strict=True):
            W = reference.sgd(W, batches[i], lr)
        np.testing.assert_allclose(found, W, atol=1e-12)


def test_rates_that_follow_training_are_scheduled_and_fixed_ones_are_not():
    options = {"rounds": 4, "lr_schedule": "cosine"}
    follows, stays = (trained({"name": "ditto", "personal_lr": lr}, **options) for lr in ("training", 0.1))
    assert follows.algorithm.hparams.personal_lr == follows.task.training.lr < 0.1
    assert stays.algorithm.hparams.personal_lr == 0.1
    assert_equal(shared_model(follows), shared_model(stays))
    assert not torch.equal(personalized(follows)["head.weight"], personalized(stays)["head.weight"])


def test_fine_tuning_for_evaluation_uses_the_configured_rate():
    run = trained({"name": "fedavg", "finetune_steps": 2}, rounds=4, lr_schedule="cosine")
    as_set = dataclasses.replace(run.task, training=run.config.training)
    assert_equal(run.models().personalized[1], run.algorithm.personalized(run.state, as_set).of_client(1))
    assert not torch.equal(run.models().personalized[1]["head.weight"], personalized(run)["head.weight"][1])


def test_a_scheduled_run_continues_from_a_checkpoint_at_the_rate_of_its_round():
    options = {"rounds": 5, "lr_schedule": "cosine"}
    method = {"name": "fedavg", "finetune_steps": 2}
    whole, first = trained(method, **options), simulation(method, **options)
    for _ in itertools.islice(first.rounds(), 4):
        pass
    second = simulation(method, **options)
    second.restore(first.checkpoint())
    assert_equal(second.models().personalized[0], first.models().personalized[0])
    for _ in second.rounds():
        pass
    assert_equal(personalized(second), personalized(whole))
    assert_equal(second.models("best").personalized[1], whole.models("best").personalized[1])
