"""Features: as the method uses them, sampled from all clients, with measures against chance."""

import numpy as np
import pytest
import torch

from engine.algorithms.gpfl import CONDITION, valves
from engine.analyses.features import Features, Options, _separation, features_of
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from tests.support.subjects import subject_of

DNN = {"name": "dnn", "hidden": 4}


def compute(subject: Subject, **options):
    return Features(Options(**{"samples": 20, "perplexity": 2, **options})).compute(subject)


def test_every_client_gives_equally_many_samples_with_labels() -> None:
    run = subject_of("ditto", model=DNN)
    found = compute(run, samples=20, data="train")
    assert sorted(np.bincount(found.arrays["client"])) == [4, 5, 5, 6]
    assert found.arrays["tsne"].shape == found.arrays["pca"].shape == (20, 2)
    whole = compute(run, samples=100)
    np.testing.assert_array_equal(whole.arrays["label"], run.task.data.test.of_everyone()[1].numpy())
    assert whole.values["width"] == 4 and not whole.values["are_inputs"]


def test_features_are_computed_by_each_clients_body() -> None:
    run = subject_of("ditto", model=DNN)
    x, clients = run.task.data.test.of_everyone()[0], np.tile(np.arange(4), 3)
    found = features_of(run, x, clients)
    for i in (0, 3):
        own = run.task.model.features(run.models.personalized[i], x[clients == i])
        np.testing.assert_allclose(found[clients == i], own.numpy())


def test_without_a_body_the_features_are_the_samples() -> None:
    run = subject_of("fedavg")
    assert compute(run).values["are_inputs"]
    x, _ = run.task.data.test.of_everyone()
    np.testing.assert_allclose(features_of(run, x, np.zeros(len(x), int)), x.numpy())


def test_gpfl_shows_its_conditioned_features() -> None:
    run = subject_of("gpfl", model=DNN)
    x, own = run.task.data.test.of_everyone()[0][:3], run.models.personalized[0]
    (expected,) = valves(own, run.task.model.features(own, x), own[CONDITION][None])
    np.testing.assert_allclose(features_of(run, x, np.zeros(3, int)), expected.numpy())


def test_prediction_by_prototypes_shows_features_of_the_body() -> None:
    run = subject_of({"name": "fedproto", "predict": "prototype"}, model=DNN)
    x, own = run.task.data.test.of_everyone()[0][:3], run.models.personalized[0]
    np.testing.assert_allclose(features_of(run, x, np.zeros(3, int)), run.task.model.features(own, x).numpy())


def test_separate_groups_agree_fully_and_mixed_ones_by_chance() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 200)
    apart = _separation(rng.normal(size=(400, 3)) + 100 * groups[:, None], groups)
    mixed = _separation(rng.normal(size=(400, 3)), groups)
    assert apart["agreement"] == 1 and apart["silhouette"] > 0.9
    assert mixed["chance"] == pytest.approx(199 / 399) == apart["chance"]
    assert abs(mixed["agreement"] - mixed["chance"]) < 0.05 and abs(mixed["silhouette"]) < 0.05


def test_a_single_group_has_no_measures() -> None:
    assert set(_separation(np.zeros((20, 2)), np.zeros(20, int)).values()) == {None}


def test_the_same_options_give_the_same_picture() -> None:
    run = subject_of("ditto", model=DNN)
    first, again, other = (compute(run, seed=seed, data="train") for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.arrays["tsne"], again.arrays["tsne"])
    assert not np.allclose(first.arrays["tsne"], other.arrays["tsne"])


def test_equal_features_are_refused() -> None:
    run = subject_of("ditto", model=DNN)
    for params in run.models.personalized:
        params["body.1.weight"].fill_(0.0)
        params["body.1.bias"].fill_(1.0)
    with pytest.raises(Unsupported, match="equal features"):
        compute(run)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_features_of_any_scale_have_a_picture(scale: float) -> None:
    run = subject_of("ditto", model=DNN)
    for params in run.models.personalized:
        params["body.1.weight"].mul_(scale)
        params["body.1.bias"].mul_(scale)
    assert np.isfinite(compute(run, samples=100).arrays["tsne"]).all()


def test_one_dimensional_features_lie_on_a_line() -> None:
    found = compute(subject_of("ditto", model={"name": "dnn", "hidden": 1}), samples=100)
    assert found.values["width"] == 1 and found.values["explained"] == [1.0, 0.0]
    assert not found.arrays["pca"][:, 1].any() and found.arrays["tsne"].shape[1] == 2


def test_non_finite_features_are_refused() -> None:
    run = subject_of("ditto", model=DNN)
    run.models.personalized[0]["body.1.bias"].fill_(torch.nan)
    with pytest.raises(Unsupported, match="not finite"):
        compute(run)
