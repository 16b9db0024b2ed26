"""The layers of a model, for methods that select layers."""

from torch import nn

from engine.models import Model, SplitModel
from tests.support.networks import model_of


def test_a_normalization_is_part_of_the_layer_before_it():
    def make() -> SplitModel:
        body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 5), nn.LayerNorm(5))
        return SplitModel(body, nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 3)))

    assert Model(make(), make).layers == (
        ("body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias"),
        ("body.3.weight", "body.3.bias", "body.4.weight", "body.4.bias"),
        ("head.0.weight", "head.0.bias"),  # the head has no layer before it
        ("head.1.weight", "head.1.bias"),
    )


def test_normalizations_are_found_by_type():
    assert model_of("dnn").norms == model_of("cnn", (1, 16, 16)).norms == ()
    model = model_of("resnet18", (1, 8, 8), width=2)
    norms = [n for n, m in model.module.named_modules() if isinstance(m, nn.GroupNorm)]
    assert model.norms == tuple(f"{n}.{which}" for n in norms for which in ("weight", "bias"))
    assert len(norms) == 20 and any("shortcut.1" in n for n in norms)
