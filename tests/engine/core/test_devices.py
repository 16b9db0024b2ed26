"""The threads of a run."""

from collections.abc import Iterator

import pytest
import torch
from threadpoolctl import threadpool_limits

from engine.core.devices import limited_threads, set_threads
from tests.support.threads import blas_threads


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    set_threads(3)
    yield
    set_threads(1)


def test_a_block_limits_pytorch_and_blas_and_restores_both() -> None:
    with limited_threads(2):
        assert (torch.get_num_threads(), blas_threads()) == (2, {2})
    assert (torch.get_num_threads(), blas_threads()) == (3, {3})


def test_limits_of_blas_are_restored_after_an_error() -> None:
    with threadpool_limits(4, user_api="blas"):
        with pytest.raises(ValueError, match="inside"), limited_threads(2):
            raise ValueError("inside")
        assert (torch.get_num_threads(), blas_threads()) == (3, {4})
