"""What arrives of compressed updates, and how many bits it takes."""

import pytest
import torch

from engine.compressors import Updates
from engine.core.registry import COMPRESSORS
from engine.core.streams import key


def updates(rows, tensors=None, stream: int = 0, clients=None, dtype=torch.float32) -> Updates:
    delta = torch.tensor(rows, dtype=dtype)
    count = delta.shape[1]
    who = torch.arange(len(delta)) if clients is None else torch.tensor(clients)
    return Updates(delta, tensors or [count], torch.full((len(delta),), count), who, stream)


def compressed(name: str, given: Updates, **options):
    entry = COMPRESSORS.get(name)
    return (entry.make(entry.options(**options)) if entry.parameters else entry.make()).compress(given)


def test_two_bits_send_the_norm_or_nothing():
    given = updates([[3.0, 4.0]] * 4000, dtype=torch.float64)
    received = compressed("qsgd", given, bits=2).received
    assert set(received.unique().tolist()) == {0.0, 5.0}
    assert (received == 5).double().mean(0).tolist() == pytest.approx([0.6, 0.8], abs=0.03)


@pytest.mark.parametrize(("bits", "expected"), [(2, 10.0), (3, 1.1111), (4, 0.2041)])
def test_the_squared_error_of_qsgd(bits, expected):
    given = updates([[3.0, 4.0]] * 20000, dtype=torch.float64)
    error = (compressed("qsgd", given, bits=bits).received - given.delta).square().sum(1)
    assert error.mean().item() == pytest.approx(expected, rel=0.05)
    levels = 2 ** (bits - 1) - 1
    assert error.mean().item() < min(2 / levels**2, 2**0.5 / levels) * 25


def test_the_mean_of_qsgd_is_the_update_and_zeros_stay():
    given = updates([[1.0, -2.0, 0.5, 0.0, 0.0]] * 20000, tensors=[3, 2], dtype=torch.float64)
    for norm in ("l2", "max"):
        found = compressed("qsgd", given, bits=3, norm=norm)
        assert found.received.mean(0).tolist() == pytest.approx([1.0, -2.0, 0.5, 0.0, 0.0], abs=0.03)
        assert not found.received[:, 3:].any()


@pytest.mark.parametrize("norm", ["l2", "max"])
def test_with_feedback_the_error_of_qsgd_is_never_longer_than_the_update_and_does_not_grow(norm):
    update = torch.randn(1, 400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    left = torch.zeros_like(update)
    for step in range(60):
        given = updates((update + left).tolist(), tensors=[300, 100], stream=step, dtype=torch.float64)
        left = given.delta - compressed("qsgd", given, bits=2, norm=norm, feedback=True).received
        assert left.norm() < given.delta.norm()
    assert left.norm() < 60 * update.norm()


def test_the_draws_of_a_client_do_not_depend_on_the_others():
    rows = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)).tolist()
    stream = key(0, "quantize", 1)
    together = compressed("qsgd", updates(rows, stream=stream, clients=[7, 2, 5])).received
    alone = compressed("qsgd", updates(rows[1:2], stream=stream, clients=[2])).received
    assert torch.equal(together[1], alone[0])
    assert not torch.equal(together[1], compressed("qsgd", updates(rows[1:2], stream=1, clients=[2])).received[0])


def test_top_k_keeps_the_largest_by_magnitude():
    found = compressed("top_k", updates([[1.0, -3.0, 2.0], [5.0, 0.0, 4.0]]), share=0.3)
    assert found.received.tolist() == [[0.0, -3.0, 0.0], [5.0, 0.0, 0.0]]


def test_bytes_of_softmax_regression_on_mnist():
    given = updates([[1.0] * 7850], tensors=[7840, 10])
    assert -(-int(compressed("qsgd", given, bits=4).bits) // 8) == 3933
    assert -(-int(compressed("top_k", given, share=0.01).bits) // 8) == 439
    assert -(-int(compressed("top_k", given, share=0.001).bits) // 8) == 45
    assert int(compressed("cast", given).bits) == 16 * 7850


def test_more_than_71_percent_is_sent_dense():
    given = updates([[1.0] * 7850])
    assert compressed("top_k", given, share=0.72) is None
    assert int(compressed("top_k", given, share=0.71).bits) < 32 * 7850
    assert compressed("none", given) is None


def test_a_client_that_sends_fewer_numbers_sends_fewer_bits():
    full = updates([[4.0, 3.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]] * 2)
    given = Updates(full.delta, [8], torch.tensor([8, 4]), full.clients, 0)
    found = compressed("top_k", given, share=0.5)
    assert found.bits.tolist() == [4 * 35, 2 * 35]
    assert found.received.tolist() == [[4.0, 3.0, 2.0, 1.0] + [0.0] * 4, [4.0, 3.0] + [0.0] * 6]


def test_half_precision_rounds_and_stays_finite():
    given = updates([[1.0, 1.0 + 2**-12, 1e6]])
    assert compressed("cast", given).received.tolist() == [[1.0, 1.0, 65504.0]]
    assert compressed("cast", given, to="bfloat16").received[0, 2].item() == pytest.approx(1e6, rel=0.01)
