"""LP-FT: FedAvg, and a copy of its model of which the head is tuned first."""

import pytest

from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.newcomers import unseen_models
from tests.support.settings import DNN, VARIED_TRAINING
from tests.support.split_models import EXACT, row_of


def lp_ft(lp_steps: int, ft_steps: int, **changed: float) -> dict:
    return {"name": "lp_ft", "lp_steps": lp_steps, "ft_steps": ft_steps} | changed


@pytest.mark.parametrize("training", VARIED_TRAINING, ids=str)
def test_lp_ft_without_probing_is_fedavg_with_fine_tuning(training: dict):
    tuned = trained({"name": "fedavg", "finetune_steps": 3}, **training)
    assert_equal(personalized(trained(lp_ft(0, 3), **training)), personalized(tuned))


def test_lp_ft_without_fine_tuning_keeps_the_body_bit_by_bit():
    run = trained(lp_ft(4, 0), model=DNN, momentum=0.9, weight_decay=0.1)
    own, shared = personalized(run), shared_model(run)
    for n, p in shared.items():
        moved = (own[n] != p).flatten(1).any(1)
        assert moved.tolist() == [n.startswith("head.")] * 4, n


def test_lp_ft_without_tuning_is_fedavg_with_a_note():
    run = trained(lp_ft(0, 0))
    assert_equal(personalized(run), personalized(trained("fedavg")))
    assert run.algorithm.personalized(run.state, run.task).params is run.state.global_params
    assert "lp_ft with lp_steps=0 and ft_steps=0: nothing is tuned, this is fedavg" in run.task.notes


def test_the_global_model_of_lp_ft_is_that_of_fedavg():
    assert_equal(shared_model(trained("lp_ft", model=DNN)), shared_model(trained("fedavg", model=DNN)))


def test_lp_ft_tunes_the_head_at_its_rate_and_then_everything_at_another():
    run = trained(lp_ft(3, 2, lp_lr=0.3, ft_lr=0.05), model=DNN, participation=0.75, rounds=1)
    cohort = run.task.cohort(1)
    batches = samples_of(run.task, cohort.clients, cohort.plan)
    start = run.task.initial_model()
    shared = plain.average({i: plain.descend(start, steps) for i, steps in batches.items()}, SIZES, "")
    everyone = run.task.everyone()
    probe, tune = (
        samples_of(run.task, everyone.clients, run.task.plan(everyone, *phase))
        for phase in (("probe", 3), ("finetune", 2))
    )
    probed = [plain.descend(shared, probe[i], 0.3, trained=["head."]) for i in range(4)]
    assert_close(shared_model(run), shared, EXACT)
    assert_close(personalized(run), plain.stack([plain.descend(p, tune[i], 0.05) for i, p in enumerate(probed)]), EXACT)


def test_tuning_is_not_counted_and_starts_after_the_first_round():
    plainly, tuned = list(simulation("fedavg").rounds()), list(simulation("lp_ft").rounds())
    costs = ("bytes_up", "bytes_down", "gradient_evaluations")
    assert all(a.scalars[n] == b.scalars[n] for a, b in zip(plainly, tuned, strict=True) for n in costs)
    differ = [(r.arrays["personalized.loss"] != r.arrays["global.loss"]).any() for r in tuned]
    assert differ == [False, True, True]


def test_newcomers_of_lp_ft_are_tuned_from_the_global_model():
    run = trained(lp_ft(2, 0), with_newcomers(), model=DNN)
    models, task = unseen_models(run), run.task.of_unseen()
    everyone = task.everyone()
    batches = samples_of(task, everyone.clients, task.plan(everyone, "probe", 2))
    for i in range(3):
        expected = plain.descend(shared_model(run), batches[i], trained=["head."])
        assert_close(row_of(models, i), expected, EXACT)


def test_lp_ft_says_that_both_phases_train_a_linear_model():
    assert any("both phases train the same parameters" in note for note in simulation("lp_ft").task.notes)
    assert not simulation("lp_ft", model=DNN).task.notes
