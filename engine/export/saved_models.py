"""Encodes the models of a round as one safetensors file.

    initial/<parameter>         the initial model
    global/<parameter>          absent without a global model
    personalized/<parameter>    [N, ...], row i is client i; absent if all clients use the global model

Without the prefix, ``initial/``, ``global/`` and row i of ``personalized/`` are ordinary state dicts of the model. If
clients have K networks each (FedEM), row i stacks them: [N, K, ...].
"""

import safetensors.torch
import torch

from engine.core.errors import CheckpointInvalid
from engine.core.params import SharedParams
from engine.core.run_json import MAX_CLIENTS
from engine.core.safetensors_header import metadata
from engine.export.artifact_checks import GLOBAL, INITIAL, PERSONALIZED, check_models, under
from engine.simulation.simulate import Models


def pack(models: Models) -> bytes:
    tensors = _named(INITIAL, models.initial)
    if models.global_model is not None:
        tensors |= _named(GLOBAL, models.global_model)
    if not models.is_common:
        names = models.personalized[0]
        tensors |= _named(PERSONALIZED, {n: torch.stack([p[n] for p in models.personalized]) for n in names})
    return safetensors.torch.save(tensors, metadata={"num_clients": str(len(models.personalized))})


def unpack(data: bytes) -> Models:
    """Inverse of ``pack``; the tensors are on the CPU. Raises CheckpointInvalid."""
    try:
        num_clients = int(metadata(data)["num_clients"])
        check_models(data, num_clients)
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, CheckpointInvalid, KeyError, ValueError) as error:
        raise CheckpointInvalid(f"these are not the models of a run ({error}); rerun it") from error
    if not 0 < num_clients <= MAX_CLIENTS:
        raise CheckpointInvalid(f"the number of clients, {num_clients}, is invalid; rerun it")
    common = under(GLOBAL, tensors) or None
    stacked = under(PERSONALIZED, tensors)
    personalized = [{n: p[i] for n, p in stacked.items()} if stacked else common or {} for i in range(num_clients)]
    return Models(under(INITIAL, tensors), common, personalized)


def _named(prefix: str, params: SharedParams) -> SharedParams:
    return {f"{prefix}{name}": p.detach().cpu().contiguous().clone() for name, p in params.items()}
