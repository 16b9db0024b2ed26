"""Confusion matrices: margins are class counts, and diagonals give the recorded accuracy."""

import dataclasses

import numpy as np
import pytest
import torch

from engine.analyses.confusion import Confusion
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.simulation.simulate import Models
from tests.support.tiny_runs import tiny_config, trained


def confusion(subject: Subject) -> Findings:
    return Confusion(Confusion.__annotations__["options"]()).compute(subject)


@pytest.mark.parametrize(
    ("algorithm", "model"), [("ditto", "mlr"), ("cgpfl", "mlr"), ("gpfl", {"name": "dnn", "hidden": 8})]
)
def test_the_diagonal_gives_the_recorded_accuracy(algorithm: str, model: object) -> None:
    subject, last = trained(tiny_config(algorithms=[algorithm], model=model))
    found = confusion(subject)
    assert ("global" in found.arrays) == ("global.accuracy" in last.arrays)
    for path, counts in found.arrays.items():
        assert counts.dtype == np.int32
        right = np.trace(counts, axis1=1, axis2=2)
        np.testing.assert_allclose(right / counts.sum((1, 2)), last.arrays[f"{path}.accuracy"], rtol=1e-6)


def biased(subject: Subject, *classes: int) -> Subject:
    """Clients whose linear models always predict one class."""
    models = []
    for answer in classes:
        params = {n: torch.zeros_like(p) for n, p in subject.models.initial.items()}
        next(p for p in params.values() if p.dim() == 1)[answer] = 1.0
        models.append(params)
    return dataclasses.replace(subject, models=Models(subject.models.initial, models[0], models))


def test_a_model_that_always_predicts_one_class_fills_one_column() -> None:
    subject = biased(trained(tiny_config())[0], 3, 0, 7, 7)
    found, test = confusion(subject), subject.task.data.test
    for client, answer in enumerate((3, 0, 7, 7)):
        held = np.bincount(test.of_client(client)[1].numpy(), minlength=10)
        np.testing.assert_array_equal(found.arrays["personalized"][client], np.outer(held, np.eye(10)[answer]))
        np.testing.assert_array_equal(found.arrays["global"][client], np.outer(held, np.eye(10)[3]))


def test_non_finite_predictions_are_left_out() -> None:
    subject = biased(trained(tiny_config())[0], 3, 0, 7, 7)
    for p in subject.models.personalized[1].values():
        p.fill_(float("nan"))
    found = confusion(subject)
    assert found.arrays["personalized"].sum((1, 2)).tolist()[1] == 0
    assert found.arrays["global"][1].sum() > 0


def test_progress_is_reported_for_every_client() -> None:
    seen: list[float] = []
    subject, _ = trained(tiny_config(), seen.append)
    seen.clear()
    confusion(subject)
    assert seen == [i / 8 for i in range(8)]


def test_an_analysis_without_test_samples_is_refused() -> None:
    subject, _ = trained(tiny_config())
    empty = dataclasses.replace(subject.task.data.test, rows=subject.task.data.test.rows[:0])
    data = dataclasses.replace(subject.task.data, test=empty)
    bare = dataclasses.replace(subject, task=dataclasses.replace(subject.task, data=data))
    with pytest.raises(Unsupported, match="test_fraction"):
        confusion(bare)
