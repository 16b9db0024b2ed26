"""Values as strict JSON, which has no NaN and no infinity."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def finite(value: Any) -> Any:
    """Converts mappings, sequences, arrays and numbers to plain JSON values, with None for non-finite numbers.

    Storage, which imports nothing of the engine, does the same to what it writes (``storage.models.to_json``).
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "f" or np.isfinite(value).all():
            return value.tolist()
        plain = value.astype(object)
        plain[~np.isfinite(value)] = None
        return plain.tolist()
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
