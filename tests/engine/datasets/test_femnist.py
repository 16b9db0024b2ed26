"""FEMNIST, on three writers in LEAF's format, and as arrays."""

import gc
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.femnist import Femnist
from engine.datasets.official import OfficialOptions

SAMPLES = {  # writer -> (gray level of all pixels, label) of training, and of test
    "f0001_00": ([(255, 0), (10, 61)], [(20, 10)]),
    "f0002_05": ([(30, 36)], []),
    "f0003_12": ([(40, 5)], [(50, 5), (60, 6)]),
}
PARTS = ("train", "test")


def save_leaf(data_dir: Path, folder: str = "femnist/data") -> Path:
    """One file for the first writer and one for the others."""
    for p, part in enumerate(PARTS):
        home = data_dir / folder / part
        home.mkdir(parents=True)
        for number, writers in enumerate((["f0001_00"], ["f0002_05", "f0003_12"])):
            own = {w: SAMPLES[w][p] for w in writers}
            data = {w: {"x": [[v / 255] * 784 for v, _ in s], "y": [y for _, y in s]} for w, s in own.items()}
            content = {"users": writers, "num_samples": [len(s) for s in own.values()], "user_data": data}
            (home / f"all_data_{number}_niid_0_keep_0_{part}_9.json").write_text(json.dumps(content))
    return data_dir


def save_npz(data_dir: Path, **changed: np.ndarray) -> Path:
    (data_dir / "femnist").mkdir(parents=True)
    arrays = {"users": np.array(list(SAMPLES))}
    for p, part in enumerate(PARTS):
        rows = [(i, v, y) for i, pair in enumerate(SAMPLES.values()) for v, y in pair[p]]
        client, v, y = (np.array(column) for column in zip(*rows, strict=True))
        x = np.broadcast_to(v.astype(np.uint8)[:, None, None], (len(v), 28, 28))
        arrays |= {f"x_{part}": x, f"y_{part}": y.astype(np.uint8), f"client_{part}": client.astype(np.uint16)}
    np.savez(data_dir / "femnist" / "femnist_leaf.npz", **{**arrays, **changed})
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return Femnist(OfficialOptions(**options)).load(data_dir, np.random.default_rng(0))


@pytest.mark.parametrize("folder", ["femnist/data", "femnist"])
def test_leafs_files_give_the_same_data_as_arrays(tmp_path, folder):
    leaf, arrays = load(save_leaf(tmp_path / "a", folder)), load(save_npz(tmp_path / "b"))
    assert leaf.fingerprint == arrays.fingerprint
    assert leaf.x.shape == (7, 1, 28, 28)
    assert leaf.x[:, 0, 0, 0].tolist() == [255, 10, 30, 40, 20, 50, 60]


def test_writers_are_the_natural_clients_in_both_parts(tmp_path):
    pool = load(save_leaf(tmp_path))
    assert pool.client.tolist() == [0, 0, 1, 2, 0, 2, 2]
    assert [pool.class_names[y] for y in pool.y] == ["0", "z", "a", "5", "A", "5", "6"]


def test_leafs_test_part_may_be_the_common_test_set(tmp_path):
    pool = load(save_leaf(tmp_path), pool="train", common_test=True)
    assert pool.y.tolist() == [0, 61, 36, 5]
    assert pool.common_test[1].tolist() == [10, 5, 6]


@pytest.mark.parametrize("standardize", [False, True])
def test_the_memory_estimate_includes_the_samples_of_all_files(tmp_path, standardize):
    for part in PARTS:
        home = tmp_path / "femnist" / "data" / part
        home.mkdir(parents=True)
        for number in range(20):
            data = {f"f{number}": {"x": [[1.0] * 784] * 2, "y": [0, 1]}}  # white: the fewest bytes for a pixel
            (home / f"all_data_{number}.json").write_text(json.dumps({"users": list(data), "user_data": data}))
    gc.collect()
    tracemalloc.start()
    pool = load(tmp_path, standardize=standardize)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(pool.y) == 80
    assert peak <= Femnist(OfficialOptions(standardize=standardize)).memory(tmp_path) <= 2 * peak


def test_missing_data_are_reported_with_their_folder(tmp_path):
    assert not Femnist(OfficialOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    assert all(word in str(refusal.value) for word in (str(tmp_path / "femnist" / "data" / "train"), "preprocess.sh"))


def of_writer(x: object, y: object) -> str:
    return json.dumps({"users": ["f"], "num_samples": [1], "user_data": {"f": {"x": x, "y": y}}})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting"),
        ("[]", "it must be an object with user_data"),
        (of_writer([[0.0] * 784], [1, 2]), "user f has 1 samples and 2 labels"),
        (of_writer([[0.0] * 783], [1]), "user f: each sample must have 784 values in 0..1"),
        (of_writer([[0.0] * 784, [0.0]], [1, 1]), "user f: "),
        (of_writer([["a"] * 784], [1]), "user f: could not convert"),
        (of_writer([[255.0] * 784], [1]), "user f: each sample must have 784 values in 0..1"),
        (of_writer([[0.0] * 784], [62]), "user f: y has values other than the whole numbers 0 to 61"),
        (of_writer("text", [1]), "user f must have lists x and y"),
    ],
)
def test_a_damaged_file_of_leaf_is_named(tmp_path, text, words):
    path = next((save_leaf(tmp_path) / "femnist" / "data" / "train").glob("all_data_1_*"))
    path.write_text(text)
    with pytest.raises(DataUnavailable, match=rf"all_data_1_.*: {words}.*preprocess\.sh"):
        load(tmp_path)


def test_a_part_without_samples_is_refused(tmp_path):
    for path in (save_leaf(tmp_path) / "femnist" / "data" / "test").glob("*.json"):
        path.write_text(of_writer([], []))
    with pytest.raises(DataUnavailable, match="its files have no samples"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x_test": np.zeros((3, 784), np.uint8)}, r"x_test has shape \[3, 784\]"),
        ({"client_test": np.array([0, 1])}, r"client_test has shape \[2\]"),
        ({"y_train": np.array([0, 1, 2, 62])}, "y_train has values"),
    ],
)
def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path, changed, words):
    with pytest.raises(DataUnavailable, match=rf"femnist_leaf\.npz: {words}.*Expected: x_train"):
        load(save_npz(tmp_path, **changed))


def test_a_truncated_file_is_refused_before_it_is_read(tmp_path):
    path = save_npz(tmp_path) / "femnist" / "femnist_leaf.npz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataUnavailable, match=r"femnist_leaf\.npz: .*Expected: x_train"):
        Femnist(OfficialOptions()).memory(tmp_path)
