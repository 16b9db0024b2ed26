"""A model trained alone equals that of local_train."""

import pytest

from engine.analyses.support.local_only import trained_alone
from tests.support.builders import assert_equal, trained
from tests.support.subjects import subject_of


@pytest.mark.parametrize("changed", [{}, {"participation": 0.5, "rounds": 5, "lr_schedule": "cosine", "momentum": 0.5}])
@pytest.mark.parametrize("model", ["mlr", {"name": "dnn", "hidden": 4}])
def test_the_model_trained_alone_equals_local_train(model, changed) -> None:
    alone = trained_alone(subject_of("ditto", model=model, **changed), 2)
    assert_equal(alone, trained("local_train", model=model, **changed).models().personalized[2])
