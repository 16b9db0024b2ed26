"""UCI HAR, on windows of three people in both supported formats."""

from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.har import CHANNELS, Har, HarOptions
from engine.partitioners.natural import Natural, NaturalOptions

PEOPLE = {"train": [1, 1, 3], "test": [2, 2]}
CLASSES = {"train": [1, 6, 2], "test": [3, 4]}  # numbered from 1 as in the official files


def windows(part: str) -> np.ndarray:
    """[n, 9, 128]: 1000 n + 10 c + t / 1000, distinct for training and test."""
    n, c, t = np.ogrid[: len(PEOPLE[part]), :9, :128]
    return (1000 * (n + 5 * (part == "test")) + 10 * c + t / 1000).astype(np.float32)


def save_npz(data_dir: Path, **changed: np.ndarray) -> Path:
    (data_dir / "har").mkdir(parents=True)
    for part in PEOPLE:
        arrays = {"X": windows(part), "y": np.array(CLASSES[part], np.int8) - 1, "subject": np.array(PEOPLE[part])}
        np.savez(data_dir / "har" / f"har_inertial_{part}.npz", **{**arrays, **changed}, channels=np.array(CHANNELS))
    return data_dir


def save_official(data_dir: Path) -> Path:
    for part in PEOPLE:
        folder = data_dir / "UCI HAR Dataset" / part
        (folder / "Inertial Signals").mkdir(parents=True)
        for c, name in enumerate(CHANNELS):
            np.savetxt(folder / "Inertial Signals" / f"{name}_{part}.txt", windows(part)[:, c], fmt=" %.7e")
        np.savetxt(folder / f"X_{part}.txt", np.arange(561.0) + np.array(PEOPLE[part])[:, None], fmt=" %.7e")
        np.savetxt(folder / f"y_{part}.txt", CLASSES[part], fmt="%d")
        np.savetxt(folder / f"subject_{part}.txt", PEOPLE[part], fmt="%d")
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return Har(HarOptions(**options)).load(data_dir, np.random.default_rng(0))


def test_a_window_has_channels_before_time(tmp_path):
    pool = load(save_npz(tmp_path))
    assert pool.x.shape == (5, 9, 128)
    assert pool.x[1, 2, 3] == np.float32(1020.003)
    assert pool.y.tolist() == [0, 5, 1, 2, 3]
    assert pool.class_names[5] == "laying"


def test_the_official_text_files_give_the_same_data_as_the_arrays(tmp_path):
    official, arrays = load(save_official(tmp_path / "a")), load(save_npz(tmp_path / "b"))
    assert np.allclose(official.x, arrays.x, rtol=1e-6)
    assert official.y.tolist() == arrays.y.tolist()
    assert official.client.tolist() == arrays.client.tolist()


def test_people_are_the_natural_clients(tmp_path):
    assert load(save_npz(tmp_path)).client.tolist() == [0, 0, 2, 1, 1]


def test_the_training_pool_only_has_training_people(tmp_path):
    pool = load(save_npz(tmp_path), pool="train", common_test=True)
    assert pool.client.tolist() == [0, 0, 1]
    assert (pool.common_test[0] == windows("test")).all()
    assert pool.common_test[1].tolist() == [2, 3]


def test_a_client_of_the_natural_split_is_one_person(tmp_path):
    pool = load(save_npz(tmp_path))
    split = Natural(NaturalOptions(min_samples=1, test_fraction=0)).split(pool, np.random.default_rng(0))
    assert [sorted(rows.tolist()) for rows in split.train] == [[0, 1], [3, 4], [2]]


def test_a_note_says_that_test_windows_drawn_at_random_overlap_with_training(tmp_path):
    pool, rng = load(save_npz(tmp_path)), np.random.default_rng(0)
    drawn = Natural(NaturalOptions(min_samples=1, test_fraction=0.5)).split(pool, rng).notes
    assert "overlap by half, and test samples are drawn at random" in drawn[0]
    assert Natural(NaturalOptions(min_samples=1, test_fraction=0)).split(pool, rng).notes == ()


def test_signals_are_standardized_per_channel_over_the_training_windows(tmp_path):
    x = load(save_npz(tmp_path), pool="train", standardize=True).x
    assert np.allclose(x.mean(axis=(0, 2)), 0, atol=1e-5)
    assert np.allclose(x.std(axis=(0, 2)), 1, atol=1e-5)


def test_the_561_features_are_read_from_the_official_release(tmp_path):
    pool = load(save_official(tmp_path), features="engineered")
    assert pool.x.shape == (5, 561)
    assert pool.x[:, 560].tolist() == [561, 561, 563, 562, 562]
    assert pool.client.tolist() == [0, 0, 2, 1, 1]


def test_without_the_official_release_the_561_features_are_missing(tmp_path):
    save_npz(tmp_path)
    assert not Har(HarOptions(features="engineered")).present(tmp_path)
    with pytest.raises(DataUnavailable, match=r"features=engineered: there is no .*or use features=inertial"):
        load(tmp_path, features="engineered")


def test_missing_data_are_reported_with_their_folder(tmp_path):
    assert not Har(HarOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable) as refusal:
        load(tmp_path)
    assert all(word in str(refusal.value) for word in (str(tmp_path / "UCI HAR Dataset"), "har_inertial_train.npz"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"X": np.zeros((3, 128, 9), np.float32)}, r"X has shape \[3, 128, 9\], must be \[n, 9, 128\]"),
        ({"X": np.full((3, 9, 128), np.nan)}, "not finite"),
        ({"y": np.array([1, 2, 6])}, "whole numbers 0 to 5"),
        ({"subject": np.array([1])}, r"subject has shape \[1\]"),
        ({"subject": np.array([None] * 3, dtype=object)}, "allow_pickle=False"),
    ],
)
def test_an_invalid_array_is_refused_with_the_expected_format(tmp_path, changed, words):
    with pytest.raises(DataUnavailable, match=rf"har_inertial_train\.npz: .*{words}.*Expected: X"):
        load(save_npz(tmp_path, **changed))


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("Inertial Signals/body_gyro_y_train.txt", lambda text: text[:-30], r"body_gyro_y_train\.txt: cannot be read"),
        (
            "Inertial Signals/body_acc_x_train.txt",
            lambda text: "",
            r"body_acc_x_train\.txt: cannot be read \(it is empty",
        ),
        ("Inertial Signals/body_acc_x_train.txt", lambda text: text.splitlines()[0], "1, 3, 3, 3"),
        ("Inertial Signals/body_acc_x_train.txt", lambda text: "1 2\n3 4\n5 6", r"\[3, 2\] values, not \[lines, 128\]"),
        ("y_train.txt", lambda text: "1\n7\n2\n", r"y_train\.txt: y has values other than"),
        ("subject_train.txt", lambda text: "1\n1\n", "different numbers of lines"),
    ],
)
def test_a_damaged_text_file_is_named(tmp_path, name, damage, words):
    path = save_official(tmp_path) / "UCI HAR Dataset" / "train" / name
    path.write_text(damage(path.read_text()))
    with pytest.raises(DataUnavailable, match=words):
        load(tmp_path)


def test_a_missing_text_file_is_named(tmp_path):
    path = save_official(tmp_path) / "UCI HAR Dataset" / "test" / "Inertial Signals" / "total_acc_z_test.txt"
    path.unlink()
    with pytest.raises(DataUnavailable, match=r"total_acc_z_test\.txt"):
        load(tmp_path)
