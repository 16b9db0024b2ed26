"""Packing arrays is lossless."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from storage.array_codec import pack, unpack, unpack_stack

DTYPES = ["?", "i1", "u1", "<i2", ">i2", "<i4", "<i8", "<f2", "<f4", ">f4", "<f8", ">f8"]


@given(st.data(), st.sampled_from(DTYPES))
def test_every_dtype_and_shape_survives_packing(data: st.DataObject, dtype: str) -> None:
    array = data.draw(arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)))
    read = unpack(*pack(array))
    assert (read.shape, read.dtype) == (array.shape, array.dtype.newbyteorder("<"))
    np.testing.assert_array_equal(read, array)


def test_nan_and_infinity_survive_packing() -> None:
    array = np.array([np.nan, np.inf, -np.inf, -0.0], dtype=np.float32)
    assert unpack(*pack(array)).tobytes() == array.tobytes()


def test_a_view_with_strides_is_packed_in_order() -> None:
    array = np.arange(12.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(unpack(*pack(array)), array)


def test_rounds_are_stacked_along_the_first_axis() -> None:
    rounds = [np.full((2, 3), r, dtype=np.float32) for r in range(4)]
    np.testing.assert_array_equal(unpack_stack("x", [pack(r) for r in rounds]), np.stack(rounds), strict=True)


def test_object_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        pack(np.array([{}]))


def test_long_arrays_with_few_known_values_are_stored_without_the_others() -> None:
    array = np.full(20_000, np.nan, np.float32)
    array[[3, 19_999]] = 1.5, np.inf
    packed = pack(array)
    assert packed.dtype == "sparse <f4" and packed.shape == "20000" and len(packed.data) == 16
    assert unpack(*packed).tobytes() == array.tobytes()
    whole = np.zeros(20_000, np.float32)
    assert pack(whole).dtype == "<f4"
    np.testing.assert_array_equal(unpack_stack("x", [packed, pack(whole)]), np.stack([array, whole]))
    np.testing.assert_array_equal(unpack_stack("x", [packed, packed]), np.stack([array, array]))
