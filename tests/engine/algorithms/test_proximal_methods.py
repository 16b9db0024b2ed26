"""Methods with a pull toward the global model: their limits without it, and the models of newcomers."""

import pytest

from tests.support.builders import assert_close, assert_equal, shared_model, simulation, trained, with_newcomers
from tests.support.newcomers import trained_alone, unseen_models


@pytest.mark.parametrize(
    ("method", "same"), [({"name": "ditto", "lam": 0}, "local_train"), ({"name": "fedprox", "mu": 0}, "fedavg")]
)
def test_a_method_without_its_pull_notes_which_method_it_equals(method, same):
    assert any(same in note for note in simulation(method).task.notes)


def test_local_train_and_ditto_without_pull_train_newcomers_alone():
    for method in ("local_train", {"name": "ditto", "lam": 0.0}, {"name": "fedprox_onestage", "lam": 0.0}):
        run = trained(method, with_newcomers())
        assert_close(unseen_models(run), trained_alone(run))


def test_fedavg_and_fedprox_give_newcomers_the_global_model():
    for method in ("fedavg", "fedprox"):
        run = trained(method, with_newcomers())
        assert_equal(unseen_models(run), shared_model(run))
