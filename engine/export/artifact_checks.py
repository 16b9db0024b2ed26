"""Checks the files of imported runs: models against the run, without torch.

Only headers are read. What pages and analyses rely on is checked here, once.
"""

from collections.abc import Mapping
from typing import TypeVar

from engine.core.errors import CheckpointInvalid
from engine.core.safetensors_header import Tensor, layout, metadata

INITIAL, GLOBAL, PERSONALIZED = "initial/", "global/", "personalized/"
T = TypeVar("T")
NUMBERS = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}


def check_models(data: bytes, num_clients: int) -> bytes:
    """Returns ``data``. Raises CheckpointInvalid unless these are the models of a run with ``num_clients`` clients."""
    tensors = layout(data)
    if unexpected := next((name for name, t in tensors.items() if t.dtype not in NUMBERS), None):
        raise CheckpointInvalid(f"{unexpected[:100]!r} has the dtype {tensors[unexpected].dtype}, which no model has")
    if unexpected := next((name for name in tensors if not name.startswith((INITIAL, GLOBAL, PERSONALIZED))), None):
        raise CheckpointInvalid(f"{unexpected[:100]!r} is not a model of a run")
    _check_number(data, num_clients)
    initial = under(INITIAL, tensors)
    global_model, personalized = under(GLOBAL, tensors), under(PERSONALIZED, tensors)
    if not initial or not (global_model or personalized):
        raise CheckpointInvalid("the initial model or the clients' models are missing")
    of_client = (num_clients, *_networks(personalized, initial))
    for name, tensor in personalized.items():
        before = of_client if name in initial else (num_clients,)
        _check_shape(f"{PERSONALIZED}{name}", tensor, initial.get(name), [before])
    for name, tensor in global_model.items():
        _check_shape(f"{GLOBAL}{name}", tensor, initial.get(name), [(num_clients,), ()])
    return data


def _networks(personalized: Mapping[str, Tensor], initial: Mapping[str, Tensor]) -> tuple[int, ...]:
    """The axis for the networks of a client, where it has several."""
    for name, tensor in personalized.items():
        if name in initial:
            return tuple(tensor.shape[1 : len(tensor.shape) - len(initial[name].shape)][:1])
    return ()


def _check_number(data: bytes, num_clients: int) -> None:
    try:
        num_found = metadata(data)["num_clients"]
    except (ValueError, KeyError) as error:
        raise CheckpointInvalid(f"the number of clients is missing ({error})") from error
    if num_found != str(num_clients):
        raise CheckpointInvalid(f"it has {num_found[:20]!r} clients, but the run has {num_clients}")


def _check_shape(name: str, tensor: Tensor, initial: Tensor | None, leading: list[tuple[int, ...]]) -> None:
    """Checks for the initial model's shape, after one of the ``leading`` axes."""
    initial_shape = None if initial is None else initial.shape
    for before in leading:
        if tensor.shape[: len(before)] == before and initial_shape in (None, tensor.shape[len(before) :]):
            return
    raise CheckpointInvalid(f"{name[:100]!r} has shape {list(tensor.shape)}, but the initial model has {initial_shape}")


def under(prefix: str, tensors: Mapping[str, T]) -> dict[str, T]:
    """The tensors below a prefix, without it."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
