"""LG-FedAvg with an empty body is FedAvg."""

from tests.support.builders import assert_equal, personalized, shared_model, trained
from tests.support.split_models import row_of


def test_lg_fedavg_with_an_empty_body_is_fedavg_with_a_note():
    run = trained("lg_fedavg")
    assert_equal(row_of(personalized(run), 2), shared_model(trained("fedavg")))
    assert any("is fedavg" in note for note in run.task.notes)
