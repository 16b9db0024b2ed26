"""Heart disease, on a few patients in UCI's format."""

from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import DataUnavailable
from engine.datasets import Pool
from engine.datasets.heart_disease import HOSPITALS, HeartDisease, HeartDiseaseOptions

PATIENTS = (
    "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0",
    "67,1,4,160,286,0,0,108,1,1.5,2,3,3,2",
    "41,0,2,130,204,0,1,172,0,1.4,?,?,?,4",  # only attributes that are left out are missing
    "50,1,3,?,204,0,1,172,0,1.4,1,0,3,1",  # left out
)


def save(data_dir: Path, **changed: str) -> Path:
    (data_dir / "heart_disease").mkdir(parents=True)
    for hospital in HOSPITALS:
        text = changed.get(hospital, "\n".join(PATIENTS) + "\n")
        (data_dir / "heart_disease" / f"processed.{hospital}.data").write_text(text)
    return data_dir


def load(data_dir: Path, **options) -> Pool:
    return HeartDisease(HeartDiseaseOptions(**options)).load(data_dir, np.random.default_rng(0))


def test_a_patient_has_thirteen_features_and_indicators_of_all_categories_but_the_first(tmp_path):
    pool = load(save(tmp_path), standardize="none")
    assert pool.x[:3].tolist() == [
        np.float32([63, 1, 145, 233, 1, 150, 0, 2.3, 0, 0, 0, 0, 1]).tolist(),
        [67, 1, 160, 286, 0, 108, 1, 1.5, 0, 0, 1, 0, 0],
        np.float32([41, 0, 130, 204, 0, 172, 0, 1.4, 1, 0, 0, 1, 0]).tolist(),
    ]


def test_patients_with_missing_values_are_left_out_and_all_degrees_are_disease(tmp_path):
    pool = load(save(tmp_path))
    assert pool.y.tolist() == [0, 1, 1] * 4
    assert pool.client.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert pool.class_names == ("no disease", "disease")


def test_features_are_standardized_over_all_patients_or_each_hospital(tmp_path):
    save(tmp_path, va="\n".join(PATIENTS[:2]))
    everyone, own = (load(tmp_path, standardize=by).x for by in ("pool", "hospital"))
    assert np.allclose(everyone.mean(0), 0, atol=1e-5) and np.allclose(everyone[:, 0].std(), 1, atol=1e-5)
    assert np.allclose(own[-2:, 0], [-1, 1], atol=1e-5)
    assert not np.allclose(everyone[-2:].mean(0), 0, atol=1e-3)


def test_a_missing_file_is_named(tmp_path):
    save(tmp_path)
    (tmp_path / "heart_disease" / "processed.va.data").unlink()
    assert not HeartDisease(HeartDiseaseOptions()).present(tmp_path)
    with pytest.raises(DataUnavailable, match=r"there is no .*processed\.va\.data; put"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "14 values"),
        (PATIENTS[0][:-2], "each line must have 14 values"),
        (PATIENTS[0].replace("145.0", "high"), "could not convert string to float: 'high'"),
        (PATIENTS[3], "every patient has a missing value"),
        (PATIENTS[0].replace("63.0,1.0,1.0", "63.0,1.0,5.0"), "column 3 is 5, must be 1 to 4"),
        (PATIENTS[0][:-1] + "-9", "a diagnosis is negative"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, text, words):
    with pytest.raises(DataUnavailable, match=rf"processed\.hungarian\.data: .*{words}.*again"):
        load(save(tmp_path, hungarian=text))
