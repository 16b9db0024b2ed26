"""With ``evaluation.on: val`` a run computes nothing on test data, and trains exactly as with both."""

from typing import Any

import numpy as np
import pytest

from engine.config.options import Evaluation
from engine.core.errors import Unsupported
from engine.core.results import RoundResult, RunResult
from engine.export.document import run_document
from engine.simulation import evaluation
from engine.simulation.simulate import Simulation
from tests.support.tiny_runs import TINY, tiny_config

WITH_VALIDATION = TINY["partition"] | {"val_fraction": 0.25, "holdout_clients": 0.25}


def computed(on: str, **changes: Any) -> tuple[Simulation, list[RoundResult]]:
    run = Simulation(tiny_config(partition=WITH_VALIDATION, evaluation={"on": on}, **changes))
    return run, list(run.rounds())


def test_a_run_on_validation_data_has_no_test_arrays() -> None:
    _, rounds = computed("val")
    names = {name for r in rounds for name in (*r.arrays, *r.scalars)}
    measured = {name for name in names if name.startswith(("personalized", "global", "unseen"))}
    of_models = {f"{model}.val_{what}" for model in ("personalized", "global") for what in ("accuracy", "loss")}
    assert measured == of_models


def test_test_samples_are_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Simulation(tiny_config(partition=WITH_VALIDATION, evaluation={"on": "val"}))
    read: list[object] = []
    compute = evaluation.evaluate
    monkeypatch.setattr(
        evaluation, "evaluate", lambda task, model, data: read.append(data) or compute(task, model, data)
    )
    list(run.rounds())
    assert read and all(data is run.task.data.val for data in read)


@pytest.mark.parametrize("name", ["ditto", "fedavg"])
def test_training_and_the_best_round_do_not_depend_on_what_is_evaluated(name: str) -> None:
    (of_both, both), (of_val, val) = computed("both", algorithms=[name]), computed("val", algorithms=[name])
    for r, other in zip(val, both, strict=True):
        np.testing.assert_array_equal(r.arrays["personalized.val_accuracy"], other.arrays["personalized.val_accuracy"])
    assert of_val.best["personalized"].round == of_both.best["personalized"].round >= 0
    assert of_val.summary()["personalized"] is None and of_val.summary()["best"]["personalized"]["round"] >= 0


def test_the_exported_summary_of_a_stopped_run_has_its_best_round() -> None:
    run, rounds = computed("val")
    config, partition = run.config, run.task.data.summary.to_dict()
    outcome = RunResult(
        experiment="e",
        algorithm="fedavg",
        label="f",
        hparams={},
        seed=0,
        status="done",
        rounds=rounds,
        partition=partition,
    )
    assert run_document(outcome)["summary"] == run.summary() and config.evaluation.on == "val"


def test_without_validation_data_it_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"no validation data; set partition\.val_fraction"):
        Simulation(tiny_config(evaluation={"on": "val"}))


def test_the_default_is_not_stored() -> None:
    assert Evaluation().model_dump(mode="json") == {"every": 1}
    assert Evaluation(on="val").model_dump(mode="json") == {"every": 1, "on": "val"}
