"""Loss landscapes: their center is the recorded loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.analyses.landscape import Landscape, Options
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from engine.core.registry import ANALYSES
from engine.simulation.evaluation import score
from tests.support.builders import trained
from tests.support.subjects import as_subject, subject_of


def compute(subject: Subject, **options):
    return Landscape(Options(points=5, **options)).compute(subject)


@pytest.mark.parametrize("model", ["mlr", {"name": "dnn", "hidden": 4}])
def test_the_center_is_the_recorded_loss(model) -> None:
    run = trained("ditto", model=model)
    found = compute(as_subject(run), client=2)
    recorded = score(run.algorithm, run.state, run.task)
    sizes = np.array(run.task.data.summary.test_sizes)
    assert found.values["centres"]["personalized_own"] == pytest.approx(recorded["personalized.loss"][2], rel=1e-6)
    assert found.values["centres"]["global_own"] == pytest.approx(recorded["global.loss"][2], rel=1e-6)
    pooled = (recorded["global.loss"] * sizes).sum() / sizes.sum()
    assert found.values["centres"]["global_everyone"] == pytest.approx(pooled, rel=1e-6)
    assert found.arrays["global_everyone"].shape == (5, 5) and found.arrays["axis"][2] == 0


def test_training_samples_are_those_of_the_client() -> None:
    run = subject_of("ditto")
    found = compute(run, client=2, data="train")
    (x, y), own = run.task.data.train.of_client(2), run.models.personalized[2]
    expected = float(torch.nn.functional.cross_entropy(run.task.model.logits(own, x), y))
    assert found.values["centres"]["personalized_own"] == pytest.approx(expected, rel=1e-6)
    assert found.values["samples"] == {"own": len(y), "everyone": run.task.data.train.num_samples}


def test_both_models_get_the_same_random_directions() -> None:
    run = subject_of("fedavg")
    found = compute(run, client=1)
    np.testing.assert_array_equal(found.arrays["global_own"], found.arrays["personalized_own"])
    other = compute(run, client=1, seed=3)
    assert not np.allclose(found.arrays["global_own"], other.arrays["global_own"])


def test_non_finite_points_stay_non_finite() -> None:
    run = subject_of("fedavg")
    run.models.personalized[0]["head.weight"].fill_(torch.nan)
    found = compute(run)
    assert np.isnan(found.arrays["personalized_own"]).all() and found.values["centres"]["personalized_own"] is None


def test_methods_with_their_own_prediction_have_landscapes() -> None:
    run = trained({"name": "fedproto", "predict": "prototype"}, model={"name": "dnn", "hidden": 4})
    found = compute(as_subject(run))
    recorded = score(run.algorithm, run.state, run.task)["personalized.loss"][0]
    assert found.values["centres"]["personalized_own"] == pytest.approx(recorded, rel=1e-6)
    assert "global_own" not in found.arrays


def test_an_unknown_client_is_refused() -> None:
    with pytest.raises(Unsupported, match="choose one from 0 to 3"):
        compute(subject_of("fedavg"), client=4)


def test_the_analysis_is_registered_and_reports_progress() -> None:
    shares: list[float] = []
    run = subject_of("ditto")
    ANALYSES.get("landscape").make(Options(points=3)).compute(replace(run, progress=shares.append))
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 1
