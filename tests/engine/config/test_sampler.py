"""Points of a search space depend on split and trial only, and fill every column evenly."""

import numpy as np
import pytest
from scipy.stats.qmc import Sobol

from engine.config.sampler import MAX_COLUMNS, MAX_TRIALS, point
from engine.core.streams import numpy_stream


def points(split: int, dimensions: int, count: int, sampler: str = "sobol") -> np.ndarray:
    return np.stack([point(sampler, split, trial, dimensions) for trial in range(1, count + 1)])


@pytest.mark.parametrize("sampler", ["sobol", "random"])
def test_a_column_does_not_depend_on_the_number_of_columns(sampler: str) -> None:
    whole = points(3, 6, 16, sampler)
    for dimensions in (1, 2, 5):
        np.testing.assert_array_equal(points(3, dimensions, 16, sampler), whole[:, :dimensions])
    assert (whole != points(4, 6, 16, sampler)).any()
    assert ((whole >= 0) & (whole < 1)).all()


@pytest.mark.parametrize("m", [3, 4, 5, 6])
def test_points_of_a_longer_draw_begin_with_the_shorter_draw(m: int) -> None:
    shorter = Sobol(MAX_COLUMNS, scramble=True, rng=numpy_stream(0, "tune", 7)).random_base2(m)
    np.testing.assert_array_equal(points(7, MAX_COLUMNS, 2**m), shorter)


@pytest.mark.parametrize("count", [8, 16, 32, 64])
def test_every_column_has_one_point_in_each_equal_bin(count: int) -> None:
    for split in range(5):
        for column in points(split, MAX_COLUMNS, count).T:
            assert sorted((column * count).astype(int)) == list(range(count)), split


def test_a_method_without_parameters_needs_no_point() -> None:
    assert point("sobol", 0, 5, 0).shape == (0,)


@pytest.mark.parametrize("trial", [0, MAX_TRIALS])
def test_there_is_no_point_for_the_defaults_or_beyond_the_last_trial(trial: int) -> None:
    with pytest.raises(ValueError, match="points exist for trials 1 to 511"):
        point("sobol", 0, trial, 1)
