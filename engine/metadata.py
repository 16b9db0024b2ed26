"""What a safetensors file says beside its tensors, of a file in memory: the library looks at files on disk only."""

import json


def metadata(data: bytes) -> dict[str, str]:
    """Raises ValueError or KeyError where there is none."""
    size = int.from_bytes(data[:8], "little")
    said: dict[str, str] = json.loads(data[8 : 8 + size])["__metadata__"]
    return said
