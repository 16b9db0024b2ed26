"""Digits and generated data sets, which need no files, and the contract of every registered data set."""

import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.datasets import load_digits

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS
from engine.datasets import Pool, digits, standardize
from engine.datasets.contexts import Contexts, ContextsOptions, rotate
from engine.datasets.digits import Digits, DigitsOptions
from engine.datasets.synthetic import Synthetic, SyntheticOptions

NOWHERE = Path("does-not-exist")


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def synthetic(seed: int = 0, **options) -> Pool:
    return Synthetic(SyntheticOptions(**options)).load(NOWHERE, generator(seed))


def contexts(seed: int = 0, **options) -> Pool:
    return Contexts(ContextsOptions(**options)).load(NOWHERE, generator(seed))


def test_every_data_set_describes_all_its_options():
    for entry in DATASETS:
        assert all(parameter.description for parameter in entry.parameters), entry.name


@pytest.mark.parametrize("name", DATASETS.names())
def test_a_data_set_is_available_or_names_the_path_of_its_files(name, tmp_path, monkeypatch):
    def offline(url, timeout):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", offline)
    entry = DATASETS.get(name)
    data = entry.make(entry.options(path="own.npz") if name == "custom" else entry.options())
    if data.present(tmp_path):
        assert len(data.load(tmp_path, generator()).y)
    else:
        with pytest.raises(DataUnavailable, match=f"there is no {re.escape(str(tmp_path))}") as refused:
            data.load(tmp_path, generator())
        folders = [pattern.split("/*")[0] for pattern in data.files]
        assert any(str(tmp_path / folder) in str(refused.value) for folder in folders)


@pytest.mark.parametrize("pool", [synthetic(), contexts(), Digits(DigitsOptions()).load(NOWHERE, generator())])
def test_a_pool_has_one_label_and_client_per_sample(pool):
    assert pool.y.shape == (len(pool.x),)
    assert pool.y.dtype == np.int64
    assert set(np.unique(pool.y)) == set(range(pool.num_classes))
    assert len(pool.class_names) == pool.num_classes
    assert pool.client is None or pool.client.shape == pool.y.shape


def test_digits_are_the_1797_images_scaled_to_one():
    pool = Digits(DigitsOptions()).load(NOWHERE, generator())
    assert pool.x.shape == (1797, 1, 8, 8)
    assert pool.x.max() * pool.scale == 1.0
    assert np.bincount(pool.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_are_those_of_scikit_learn_without_its_slow_import(monkeypatch):
    theirs = load_digits()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    x, y = digits._read.__wrapped__()
    assert np.array_equal(x[:, 0], theirs.images) and np.array_equal(y, theirs.target)
    assert (x.dtype, y.dtype) == (np.uint8, np.int64) and x.flags.c_contiguous


def test_standardized_digits_have_mean_zero_and_deviation_one():
    pool = Digits(DigitsOptions(standardize=True)).load(NOWHERE, generator())
    assert pool.scale == 1.0
    assert abs(pool.x.mean()) < 1e-4
    assert pool.x.std() == pytest.approx(1, abs=1e-4)


def test_standardizing_a_table_works_per_feature_also_for_constant_ones():
    table = np.array([[1.0, 5.0], [3.0, 5.0]])
    assert standardize(table, table).tolist() == [[-1, 0], [1, 0]]


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e-9, 1e300])
def test_a_constant_feature_becomes_zero_whatever_its_value(value):
    table = np.full((10, 2), value)
    table[:, 1] = np.arange(10.0)
    assert standardize(table, table)[:, 0].tolist() == [0] * 10
    assert standardize(np.array([[value + 0.25, 4.5]]), table).tolist() == [[value + 0.25 - value, 0]]


@pytest.mark.parametrize("axis", [None, (0, 2)])
def test_moments_do_not_depend_on_the_block_size(axis, monkeypatch):
    monkeypatch.setattr("engine.datasets._BLOCK", 2)
    x = generator().integers(0, 256, (5, 3, 4)).astype(np.uint8)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axis, keepdims=True)) / wide.std(axis, keepdims=True)
    np.testing.assert_allclose(standardize(x, x, axis), expected, atol=1e-6)
    assert standardize(x, x, axis).dtype == np.float32


def test_fingerprint_changes_with_values_shapes_and_clients():
    x, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    pools = [Pool(x, y, 2), Pool(x + 1, y, 2), Pool(x.reshape(4, 1, 2), y, 2), Pool(x, y, 2, client=y)]
    assert len({pool.fingerprint for pool in pools}) == 4
    assert Pool(x.copy(), y.copy(), 2).fingerprint == pools[0].fingerprint


def test_fingerprint_changes_with_the_common_test_set_and_is_that_of_stored_runs_without_one():
    x, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    common = [None, (x, y), (x + 1, y), (x, 1 - y)]
    found = [Pool(x, y, 2, client=y, split=y, common_test=test).fingerprint for test in common]
    assert len(set(found)) == 4
    assert found[0] == "0489cec3c61d4f5b8d7075be8162e70aec228b796d808823a9dfaa651dc56e12"


def test_the_same_seed_generates_the_same_data():
    assert synthetic(3).fingerprint == synthetic(3).fingerprint != synthetic(4).fingerprint
    assert contexts(3).fingerprint == contexts(3).fingerprint != contexts(4).fingerprint


def test_synthetic_clients_share_one_model_at_r_zero():
    truth = synthetic(R=0.0).truth
    assert (truth["weights"] == truth["center"]).all()


def test_r_is_the_expected_distance_of_clients_from_the_center():
    truth = synthetic(R=2.0, num_clients=500, samples_per_client=2, dim=50).truth
    distances = np.linalg.norm(truth["weights"] - truth["center"], axis=1)
    assert np.sqrt((distances**2).mean()) == pytest.approx(2, rel=0.05)


def test_r_only_changes_the_models():
    near, far = synthetic(R=1.0), synthetic(R=3.0)
    assert (near.x == far.x).all()
    assert (near.truth["center"] == far.truth["center"]).all()
    shift = far.truth["weights"] - far.truth["center"]
    assert np.allclose(shift, 3 * (near.truth["weights"] - near.truth["center"]))


def test_synthetic_features_have_the_documented_variances():
    pool = synthetic(num_clients=1, samples_per_client=20_000, dim=4)
    assert np.allclose(pool.x.var(axis=0), np.arange(1, 5) ** -1.2, rtol=0.05)
    assert np.ptp(pool.x.mean(axis=0)) < 0.05  # v_k is the same for all features


def test_argmax_labels_follow_the_sign_of_the_model_and_warn():
    pool = synthetic(labels="argmax")
    logits = (pool.x * pool.truth["weights"][pool.client]).sum(axis=1)
    assert (pool.y == (logits > 0)).all()
    assert pool.notes[0].startswith("labels drawn with labels=argmax are noise-free")


def test_sampled_labels_are_as_likely_as_the_model_says():
    pool = synthetic(num_clients=2, samples_per_client=20_000)
    probability = 1 / (1 + np.exp(-(pool.x * pool.truth["weights"][pool.client]).sum(axis=1)))
    assert pool.notes == ()
    assert pool.y.mean() == pytest.approx(probability.mean(), abs=0.01)
    assert (pool.y != (probability > 0.5)).any()


def test_clients_are_assigned_to_contexts_in_turn():
    assert contexts(num_clients=5, num_contexts=2).contexts.tolist() == [0, 1, 0, 1, 0]


def test_without_noise_a_shifted_context_gives_the_next_label():
    pool = contexts(num_clients=2, num_contexts=2, noise=0.0)
    label_of = [
        {tuple(x): y for x, y in zip(pool.x[pool.client == k], pool.y[pool.client == k], strict=True)} for k in (0, 1)
    ]
    assert set(label_of[0]) == set(label_of[1])
    assert all(label_of[1][x] == (y + 1) % 10 for x, y in label_of[0].items())


def test_rotated_contexts_preserve_norms_and_labels_of_the_means():
    pool = contexts(num_clients=2, num_contexts=2, noise=0.0, shift="rotation")
    point = [pool.x[(pool.client == k) & (pool.y == 0)][0] for k in (0, 1)]
    assert np.allclose(point[0], -point[1])  # half a turn


def test_a_quarter_turn_swaps_feature_pairs_and_keeps_an_odd_feature():
    turned = rotate(np.array([[1.0, 0.0, 0.0, 2.0, 7.0]]), np.array([np.pi / 2]))
    assert np.allclose(turned, [[0, 1, -2, 0, 7]])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"num_contexts": 3, "num_clients": 2}, "num_clients"),
        ({"num_contexts": 3, "num_classes": 2}, "num_classes"),
    ],
)
def test_indistinguishable_contexts_are_refused(options, word):
    with pytest.raises(ValidationError, match=word):
        ContextsOptions(**options)
