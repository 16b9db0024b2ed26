"""The file with a round's models."""

import pytest
import torch

from engine.core.errors import CheckpointInvalid
from engine.export.saved_models import pack, unpack
from engine.simulation.simulate import Models


def model(value: float) -> dict[str, torch.Tensor]:
    return {"head.weight": torch.full((2, 3), float(value)), "head.bias": torch.full((2,), -float(value))}


def test_models_are_loaded_as_saved():
    back = unpack(pack(Models(model(0), model(1), [model(2), model(3)])))
    assert torch.equal(back.initial["head.weight"], model(0)["head.weight"])
    assert torch.equal(back.global_model["head.bias"], model(1)["head.bias"])
    assert [p["head.weight"][0, 0].item() for p in back.personalized] == [2, 3]


def test_a_method_without_a_global_model_saves_none():
    assert unpack(pack(Models(model(0), None, [model(2)]))).global_model is None


def test_one_model_for_all_clients_is_stored_once():
    common = model(1)
    models = Models(model(0), common, [common] * 100)
    assert models.num_bytes == 2 * 8 * 4
    assert len(pack(models)) < 1000
    back = unpack(pack(models))
    assert len(back.personalized) == 100
    assert torch.equal(back.personalized[99]["head.weight"], common["head.weight"])


def test_the_size_is_computed_before_packing():
    models = Models(model(0), model(1), [model(2), model(3)])
    assert models.num_bytes == 4 * 8 * 4


@pytest.mark.parametrize("data", [b"", b"rubbish that is long enough", pack(Models(model(0), None, [model(1)]))[:-4]])
def test_other_files_are_refused(data):
    with pytest.raises(CheckpointInvalid):
        unpack(data)
