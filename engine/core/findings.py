"""The result of an analysis: named arrays and plain values, stored as one safetensors file. Read without torch."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from engine.core.errors import CheckpointInvalid
from engine.core.safetensors_header import metadata


@dataclass(frozen=True, eq=False)
class Findings:
    """Named ``arrays`` of any shape, and ``values`` that JSON can represent."""

    arrays: dict[str, np.ndarray]
    values: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        arrays = {name: np.asarray(array, order="C") for name, array in self.arrays.items()}
        return safetensors.numpy.save(arrays, metadata={"values": json.dumps(self.values)})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Findings":
        """Inverse of ``to_bytes``. Raises CheckpointInvalid."""
        try:
            values = json.loads(metadata(data)["values"])
            if not isinstance(values, dict):
                raise ValueError("its values are not a JSON object")
            arrays = safetensors.numpy.load(data)
        except (SafetensorError, KeyError, ValueError, RecursionError, TypeError) as error:
            raise CheckpointInvalid(f"not the result of an analysis ({error}); recompute it") from error
        return cls(arrays, values)
