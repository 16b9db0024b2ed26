"""Layers with few outputs: the values are those of the plain product, in either order of the memory."""

import pytest
import torch

from engine.backends import narrow

SHAPES = [(5, 3), (5, 5), (3, 5), (20, 15), (20, 16), (1, 4), (4, 1)]  # samples, outputs


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize(("samples", "outputs"), SHAPES)
def test_outputs_are_x_times_w_plus_the_bias(samples, outputs):
    x, weight, bias = drawn(2, samples, 6), drawn(2, outputs, 6), drawn(2, outputs)
    plain = torch.einsum("abf,acf->abc", x, weight)
    torch.testing.assert_close(narrow.linear(x, weight, None), plain)
    torch.testing.assert_close(narrow.linear(x, weight, bias), plain + bias[:, None])


def test_the_memory_is_ordered_by_output_where_these_are_fewer_than_samples_and_than_16():
    for samples, outputs in SHAPES:
        y = narrow.linear(drawn(2, samples, 6), drawn(2, outputs, 6), None)
        assert y.mT.is_contiguous() == ((outputs < samples and outputs < 16) or 1 in (samples, outputs)), y.shape


def test_a_product_is_added_in_place_in_either_order():
    a, b = drawn(2, 5, 6), drawn(2, 6, 3)
    for out in (drawn(2, 5, 3), drawn(2, 3, 5).mT):
        expected, place = out + 0.5 * a @ b, out.data_ptr()
        narrow.add_product(out, a, b, 0.5)
        assert out.data_ptr() == place
        torch.testing.assert_close(out, expected)


def test_the_softmax_is_over_classes_in_either_order():
    for logits in (drawn(2, 5, 3), drawn(2, 3, 5).mT):
        shares = narrow.log_softmax(logits)
        torch.testing.assert_close(shares, torch.log(logits.exp() / logits.exp().sum(2, keepdim=True)))
        assert shares.stride() == logits.stride()
