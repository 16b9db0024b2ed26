"""FedBABU: training of the body under a frozen head, and fine-tuning."""

import pytest

from engine.core.errors import Unsupported
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, assert_equal, personalized, shared_model, simulation, trained
from tests.support.settings import DNN
from tests.support.split_models import EXACT, body_and_head, rounds_of, row_of


def test_fedbabu_trains_the_body_and_fine_tunes_everything():
    run = trained({"name": "fedbabu", "finetune_steps": 4}, model=DNN, participation=0.75)
    body, head = body_and_head(run)
    for batches in rounds_of(run, {}):
        moved = {i: plain.descend(body | head, common, trained=["body."]) for i, (common,) in batches.items()}
        body = plain.average(moved, SIZES, "body.")
    assert_close(shared_model(run), body | head, EXACT)
    everyone = run.task.everyone(stream="finetune", steps=4)
    tuning = samples_of(run.task, everyone.clients, everyone.plan)
    assert_close(personalized(run), plain.stack([plain.descend(body | head, tuning[i]) for i in range(4)]), EXACT)


def test_the_head_of_fedbabu_is_never_trained():
    run = trained("fedbabu", model=DNN, momentum=0.9, weight_decay=0.1)
    head = body_and_head(run)[1]
    assert_equal({n: p for n, p in shared_model(run).items() if n in head}, head)


def test_fedbabu_without_fine_tuning_uses_the_global_model():
    run = trained({"name": "fedbabu", "finetune_steps": 0}, model=DNN)
    assert_equal(row_of(personalized(run), 3), shared_model(run))


def test_fedbabu_evaluates_the_untrained_model_before_the_first_round():
    run = simulation("fedbabu", model=DNN)
    assert_equal(row_of(personalized(run), 1), run.task.initial_model())


def test_fedbabu_refuses_a_zero_initialization():
    with pytest.raises(Unsupported, match="init: default"):
        simulation("fedbabu", model=DNN | {"init": "zeros"})
