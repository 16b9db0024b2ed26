"""The models of characters: known sizes, PyTorch's LSTM as reference, and causality."""

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from engine.backends.batched import Batched
from engine.backends.loop import Loop
from engine.core.errors import Unsupported
from engine.core.registry import MODELS
from engine.federation.batches import Batch
from engine.models.char_lstm import LstmLayer
from engine.models.char_transformer import CausalAttention
from engine.models.tokens import require_fitting_tokens
from tests.support.networks import model_of, stacked

IDS = torch.tensor([[3, 1, 5], [2, 4, 4]], dtype=torch.int32)


def test_the_lstm_has_as_many_parameters_as_that_of_federated_averaging():
    assert model_of("char_lstm", (80,), classes=90, vocabulary=90).num_parameters == 822_570


def test_a_transformer_has_the_parameters_of_its_blocks():
    dim, length, vocabulary, classes = 64, 80, 81, 80
    block = (dim + 1) * 3 * dim + (dim + 1) * dim + (dim + 1) * 4 * dim + (4 * dim + 1) * dim + 2 * 2 * dim
    expected = vocabulary * dim + length * dim + 2 * block + 2 * dim + (dim + 1) * classes
    assert model_of("char_transformer", (length,), classes).num_parameters == expected


@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_lstm_layer_equals_pytorchs(is_alone, dtype):
    torch.manual_seed(0)
    reference, layer = nn.LSTM(3, 5, batch_first=True).to(dtype), LstmLayer(3, 5).to(dtype)
    layer.is_alone = is_alone
    for name, parameter in layer.named_parameters():
        parameter.data = getattr(reference, f"{name}_l0").data.clone()
    x = torch.randn(2, 7, 3, dtype=dtype)
    found, expected = layer(x), reference(x)[0]
    torch.testing.assert_close(found, expected)
    gradient = torch.autograd.grad(found.square().sum(), layer.parameters())
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.square().sum(), reference.parameters()))


def test_clients_that_are_computed_one_by_one_use_pytorchs_lstm(monkeypatch):
    calls = []
    monkeypatch.setattr(LstmLayer, "_in_one_call", lambda self, x: calls.append(1) or self._step_by_step(x))
    model = model_of("char_lstm", (3,), vocabulary=6, dim=4, num_layers=2, hidden=5)
    params = stacked(model, 2)
    batch = Batch(IDS.double().expand(2, 2, 3), torch.tensor([[0, 1], [2, 2]]), None, (2, 2))
    Loop(model).accumulate({n: torch.zeros_like(p) for n, p in params.items()}, params, batch, 1.0, 0.0)
    assert len(calls) == 2 * 2, "two layers of two clients"
    assert not any(layer.is_alone for layer in model.module.modules() if isinstance(layer, LstmLayer))


def test_the_written_out_attention_equals_pytorchs():
    torch.manual_seed(0)
    attention = CausalAttention(8, 2).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in attention.queries_keys_values(x).chunk(3, -1))
    expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(attention(x), attention.out(expected.transpose(1, 2).flatten(-2)))


@pytest.mark.parametrize("layer", [LstmLayer(4, 6), CausalAttention(4, 2)])
def test_a_position_does_not_see_later_ones(layer):
    x = torch.randn(1, 5, 4)
    changed = x.clone()
    changed[:, 3:] += 1
    before, after = layer(x), layer(changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


@pytest.mark.parametrize("name", ["char_lstm", "char_transformer"])
def test_the_prediction_depends_on_the_order_of_characters(name):
    model = model_of(name, (3,), vocabulary=6, dim=4)
    one, other = torch.tensor([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]])
    params = model.initial(0)
    assert not torch.allclose(model.logits(params, one[None]), model.logits(params, other[None]))


@pytest.mark.parametrize("name", ["char_lstm", "char_transformer"])
def test_second_derivatives_of_several_clients_agree_between_backends(name):
    model = model_of(name, (3,), vocabulary=6, dim=4, num_layers=1, **{"hidden": 5} if name == "char_lstm" else {})
    params = stacked(model, 2)
    vector = {n: p.flip(0) for n, p in params.items()}
    batch = Batch(IDS.double().expand(2, 2, 3), torch.tensor([[0, 1], [2, 2]]), None, (2, 2))
    one, other = (backend(model).hessian_vector(params, vector, batch) for backend in (Loop, Batched))
    for n in model.names:
        torch.testing.assert_close(one[n], other[n], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ["char_lstm", "char_transformer"])
def test_the_declared_number_of_layers_follows_the_options(name):
    entry, options = MODELS.get(name), {"vocabulary": 6, "dim": 4, "num_layers": 3}
    assert len(model_of(name, (3,), **options).layers) == entry.make(entry.options(**options)).num_layers


@pytest.mark.parametrize("name", ["char_lstm", "char_transformer"])
def test_samples_with_more_ids_than_the_vocabulary_are_refused(name):
    require_fitting_tokens(model_of(name, (3,), vocabulary=6, dim=4), IDS)
    with pytest.raises(Unsupported, match="ids up to 5, and the model has vocabulary=5; set vocabulary: 6"):
        require_fitting_tokens(model_of(name, (3,), vocabulary=5, dim=4), IDS)


@pytest.mark.parametrize("name", ["char_lstm", "char_transformer"])
def test_samples_of_another_shape_are_refused_with_advice(name):
    with pytest.raises(Unsupported, match=rf"{name} requires character ids .* shakespeare"):
        model_of(name, (1, 8, 8))


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValidationError, match="num_heads=3 does not divide dim=8"):
        MODELS.get("char_transformer").options(dim=8, num_heads=3)
