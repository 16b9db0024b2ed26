"""The models that clients send: FedAvg's next model is their weighted mean."""

import pytest

from engine.core.params import weighted_mean
from engine.simulation.sent_models import sent_models
from tests.support.builders import assert_close, assert_equal, shared_model, simulation


@pytest.mark.parametrize("training", [{}, {"batch_size": "full"}, {"local_epochs": 2}], ids=str)
def test_the_next_shared_model_is_the_mean_of_the_sent_ones(training: dict[str, object]) -> None:
    run = simulation("fedavg", rounds=2, **training)
    rounds = run.rounds()
    next(rounds)
    for _ in range(2):
        sent, before = sent_models(run), shared_model(run)
        assert_equal(shared_model(run), before)
        next(rounds)
        assert_close(shared_model(run), weighted_mean(sent, run.task.weights))


def test_each_client_sends_what_it_would_keep_if_it_trained_alone() -> None:
    fedavg, alone = simulation("fedavg", rounds=1), simulation("local_train", rounds=1)
    next(fedavg.rounds())
    for _ in alone.rounds():
        pass
    kept = alone.algorithm.personalized(alone.state, alone.task).params
    assert_close(sent_models(fedavg), dict(kept))
