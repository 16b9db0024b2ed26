"""Imported models must match the number of clients and a common initial model."""

import json
import struct

import pytest
import torch
from safetensors.torch import save

from engine.config.schema import parse_experiment
from engine.core.errors import CheckpointInvalid
from engine.core.registry import ALGORITHMS
from engine.export.artifact_checks import check_models
from engine.export.saved_models import pack, unpack
from engine.simulation.simulate import Simulation

START = {"initial/w": torch.zeros(3)}
OWN = {"personalized/w": torch.zeros(4, 3)}
OF_TWO = {"personalized/w": torch.zeros(4, 2, 3)}  # two networks a client
TINY = {
    "name": "tiny",
    "dataset": "digits",
    "model": {"name": "dnn", "hidden": 4},
    "training": {"rounds": 1, "local_steps": 1},
    "partition": {"name": "iid", "num_clients": 4, "public_fraction": 0.1},  # some methods need it
}


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_the_models_of_every_method_are_accepted(name: str) -> None:
    simulation = Simulation(parse_experiment(TINY | {"algorithms": [name]}).runs()[0])
    list(simulation.rounds())
    data = pack(simulation.models())
    assert check_models(data, 4) == data and len(unpack(data).personalized) == 4


@pytest.mark.parametrize(
    ("tensors", "num_clients", "words"),
    [
        (START | OWN, "5", "has '5' clients"),
        (START | OWN, "-1", "has '-1' clients"),
        (START | OWN, "９", "clients"),
        (START, "4", "clients' models are missing"),
        (OWN, "4", "initial model or"),
        (START | {"personalized/w": torch.zeros(3, 3)}, "4", "has shape"),
        (START | {"personalized/w": torch.zeros(4, 2)}, "4", "has shape"),
        (START | {"personalized/w": torch.zeros(4, 2, 2, 3)}, "4", "has shape"),
        (START | {"initial/b": torch.zeros(1)} | OF_TWO | {"personalized/b": torch.zeros(4, 3, 1)}, "4", "has shape"),
        (START | {"initial/b": torch.zeros(1)} | OF_TWO | {"personalized/b": torch.zeros(4, 1)}, "4", "has shape"),
        (START | {"global/w": torch.zeros(2)}, "4", "has shape"),
        (START | {"global/w": torch.zeros(5, 3)}, "4", "has shape"),
        (START | OWN | {"evil": torch.zeros(1)}, "4", "is not a model"),
        (START | {"personalized/w": torch.zeros(4, 3, dtype=torch.complex64)}, "4", "which no model has"),
    ],
)
def test_models_of_another_shape_are_refused(tensors: dict[str, torch.Tensor], num_clients: str, words: str) -> None:
    with pytest.raises(CheckpointInvalid, match=words):
        check_models(save(tensors, metadata={"num_clients": num_clients}), 4)


def raw(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        bytes(8),
        struct.pack("<Q", 2**63) + b"{}",
        raw([]),
        raw({"__metadata__": []}),
        raw(b"{"),
        raw(b'{"a":' * 5000),
        raw({"initial/w": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}),
        raw({"initial/w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}}, b"1234"),
        raw({"initial/w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"1234"),
        raw({"__metadata__": {"num_clients": "4"}}),
        raw({"__metadata__": {"num_clients": "9" * 5000}}),
        save(START | {"global/w": torch.zeros(3)}, metadata={"num_clients": "1000000000000"}),
    ],
    ids=range(14),
)
def test_files_without_models_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointInvalid):
        check_models(data, 4)
    with pytest.raises(CheckpointInvalid):
        unpack(data)
