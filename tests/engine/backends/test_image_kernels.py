"""The kernels for a GPU, interpreted on the CPU (``TRITON_INTERPRET``), against PyTorch."""

from typing import Any

import pytest
import torch

from tests.support.images import CONVOLUTIONS, NORMALIZATIONS, convolution, group_norm


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.slow
def test_a_convolution_and_its_gradients_are_those_of_pytorch(case: tuple[Any, ...]) -> None:
    for found, expected in convolution(*case):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", NORMALIZATIONS)
def test_a_normalization_and_its_gradients_are_those_of_pytorch(case: tuple[int, ...]) -> None:
    for found, expected in group_norm(*case):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
