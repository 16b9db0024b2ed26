"""The models of a round as bytes: one safetensors file.

    initial/<parameter>         the common start
    global/<parameter>          absent where the method has no global model
    personalized/<parameter>    [N, ...], client i's in row i; absent where every client uses the global model

Without their prefix ``initial/``, ``global/`` and row i of ``personalized/`` are ordinary state dicts of the model.
"""

import safetensors.torch
import torch

from engine.core.errors import CheckpointInvalid
from engine.core.params import SharedParams
from engine.core.run_json import MAX_CLIENTS
from engine.core.safetensors_header import metadata
from engine.export.artifact_checks import check_models
from engine.simulation.simulate import Models

MODELS_LAST, MODELS_BEST = "model-last", "model-best"  # the kinds of artifacts


def num_bytes(models: Models) -> int:
    """How large the file will be, nearly."""
    parts = [models.initial, models.global_model or {}, *([] if models.is_common else models.personalized)]
    return sum(p.nbytes for params in parts for p in params.values())


def pack(models: Models) -> bytes:
    tensors = _named("initial", models.initial)
    if models.global_model is not None:
        tensors |= _named("global", models.global_model)
    if not models.is_common:
        names = models.personalized[0]
        tensors |= _named("personalized", {n: torch.stack([p[n] for p in models.personalized]) for n in names})
    return safetensors.torch.save(tensors, metadata={"num_clients": str(len(models.personalized))})


def unpack(data: bytes) -> Models:
    """Inverse of pack, on the CPU. Raises CheckpointInvalid."""
    try:
        num_clients = int(metadata(data)["num_clients"])
        check_models(data, num_clients)
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, CheckpointInvalid, KeyError, ValueError) as error:
        raise CheckpointInvalid(f"these are not the models of a run ({error}); run it again") from error
    if not 0 < num_clients <= MAX_CLIENTS:
        raise CheckpointInvalid(f"these are models of {num_clients} clients, which no run has; run it again")
    common = _under("global", tensors) or None
    stacked = _under("personalized", tensors)
    personalized = [{n: p[i] for n, p in stacked.items()} if stacked else common or {} for i in range(num_clients)]
    return Models(_under("initial", tensors), common, personalized)


def _named(prefix: str, params: SharedParams) -> SharedParams:
    return {f"{prefix}/{name}": p.detach().cpu().contiguous().clone() for name, p in params.items()}


def _under(prefix: str, tensors: SharedParams) -> SharedParams:
    return {n.removeprefix(f"{prefix}/"): p for n, p in tensors.items() if n.startswith(f"{prefix}/")}
