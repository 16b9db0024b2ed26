"""Memory in large pages is memory like any other."""

import pytest
import torch

from engine.core import large_tensors


@pytest.mark.parametrize("least", [0, 2**40], ids=["large", "small"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_new_memory_has_the_shape_and_type_of_the_tensor_and_can_be_written(monkeypatch, least, dtype):
    monkeypatch.setattr(large_tensors, "_LEAST_BYTES", least)
    like = torch.arange(2**20, dtype=dtype).view(2, 2**18, 2).transpose(0, 1)
    made = large_tensors.empty_like(like)
    assert made.shape == like.shape and made.dtype == dtype and made.is_contiguous()
    torch.add(like, 1, out=made)
    kept = made[1:]
    del made
    assert torch.equal(kept, like[1:] + 1)


def test_a_kernel_without_large_pages_gives_ordinary_memory(monkeypatch):
    monkeypatch.setattr(large_tensors, "_LEAST_BYTES", 0)
    monkeypatch.setattr(large_tensors.mmap, "MADV_HUGEPAGE", -1)
    monkeypatch.setattr(large_tensors.mmap, "MADV_FREE", -1)
    large_tensors._spare.clear()
    like = torch.zeros(2**20)
    for _ in range(2):
        assert large_tensors.empty_like(like).fill_(5).eq(5).all()


def test_without_memory_for_it_torch_is_asked(monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(large_tensors, "_LEAST_BYTES", 0)
    monkeypatch.setattr(large_tensors.mmap, "mmap", refused)
    large_tensors._spare.clear()
    assert large_tensors.empty_like(torch.zeros(2**10)).shape == (2**10,)


def test_freed_memory_is_used_again_for_a_tensor_of_the_same_size(monkeypatch):
    monkeypatch.setattr(large_tensors, "_LEAST_BYTES", 0)
    like = torch.zeros(2**20)
    first, second = large_tensors.empty_like(like), large_tensors.empty_like(like)
    assert first.data_ptr() != second.data_ptr()
    second.fill_(2)
    place = first.data_ptr()
    del first
    larger = large_tensors.empty_like(torch.zeros(2**21))
    assert larger.fill_(3).eq(3).all() and second.eq(2).all()
    place = second.data_ptr()
    del second
    third = large_tensors.empty_like(like)
    assert third.data_ptr() == place and third.fill_(4).eq(4).all() and larger.eq(3).all()
