"""Reads the header of a safetensors file of unknown origin, before any tensor is created."""

import json
from typing import NamedTuple

import safetensors

from engine.core.errors import CheckpointInvalid


class Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


def metadata(data: bytes) -> dict[str, str]:
    """The metadata of the header. Raises ValueError or KeyError if there is none."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size])
    except RecursionError as error:
        raise ValueError("its header is nested too deeply") from error
    found = header["__metadata__"] if isinstance(header, dict) else None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("it has no valid safetensors header")
    return found


def layout(data: bytes) -> dict[str, Tensor]:
    """All tensors, whose bytes are known to fill the file. Raises CheckpointInvalid."""
    try:
        return {name: Tensor(t["dtype"], tuple(t["shape"])) for name, t in safetensors.deserialize(data)}
    except (safetensors.SafetensorError, ValueError, OverflowError) as error:
        raise CheckpointInvalid(f"not a safetensors file ({error})") from error
