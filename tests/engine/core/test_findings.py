"""Findings are restored from bytes, and other bytes are refused."""

import numpy as np
import pytest
import safetensors.numpy

from engine.core.errors import CheckpointInvalid
from engine.core.findings import Findings


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.bool_])
def test_arrays_and_values_are_restored(dtype: type) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    values = {"names": ["a", "λ"], "share": 0.5, "nested": {"none": None, "n": 3}}
    found = Findings.from_bytes(Findings({"grid": array, "none": array[:0]}, values).to_bytes())
    assert found.values == values
    assert found.arrays["grid"].dtype == array.dtype
    np.testing.assert_array_equal(found.arrays["grid"], array)
    assert found.arrays["none"].shape == (0, 4)


def test_array_views_are_restored_in_order() -> None:
    grid = np.arange(6.0).reshape(2, 3)
    found = Findings.from_bytes(Findings({"turned": grid.T, "scalar": np.array(2.5)}).to_bytes())
    np.testing.assert_array_equal(found.arrays["turned"], grid.T)
    assert found.arrays["scalar"].shape == ()


def test_non_finite_numbers_in_arrays_are_restored() -> None:
    found = Findings.from_bytes(Findings({"x": np.array([np.nan, np.inf])}).to_bytes())
    np.testing.assert_array_equal(found.arrays["x"], [np.nan, np.inf])


@pytest.mark.parametrize(
    "data", [b"", b"rubbish", safetensors.numpy.save({"x": np.zeros(2)}), Findings({"x": np.zeros(9)}).to_bytes()[:-8]]
)
def test_other_bytes_are_refused_as_findings(data: bytes) -> None:
    with pytest.raises(CheckpointInvalid, match="recompute it"):
        Findings.from_bytes(data)
