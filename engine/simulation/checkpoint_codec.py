"""Encodes the state of a method: safetensors with a JSON tree in the header, no pickles."""

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from engine.core.errors import CheckpointInvalid
from engine.core.safetensors_header import metadata


def to_bytes(value: Any) -> bytes:
    """Encodes dataclasses, dicts, lists, tuples, tensors, numbers, strings and None, arbitrarily nested."""
    tensors: dict[str, Tensor] = {}
    tree = _describe(value, "", tensors)
    return safetensors.torch.save(tensors, metadata={"tree": json.dumps(tree)})


def from_bytes(data: bytes, module: str, device: torch.device) -> Any:
    """Inverse of ``to_bytes``. Dataclasses are looked up in ``module`` only. Raises CheckpointInvalid."""
    try:
        tree = json.loads(metadata(data)["tree"])
        tensors = {n: t.to(device) for n, t in safetensors.torch.load(data).items()}
        return _rebuild(tree, tensors, module)
    except (ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise CheckpointInvalid(f"the checkpoint does not fit this run ({error}); rerun the run") from error


def _describe(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {"tensor": path}
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: _describe(getattr(value, f.name), f"{path}/{f.name}", tensors) for f in fields(value)}
        return {"dataclass": type(value).__name__, "fields": inner}
    if isinstance(value, Mapping):
        return {"dict": {k: _describe(v, f"{path}/{k}", tensors) for k, v in value.items()}}
    if isinstance(value, tuple | list):
        items = [_describe(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"a state must not contain a {type(value).__name__} (at {path or 'the top'})")


def _rebuild(tree: Any, tensors: dict[str, Tensor], module: str) -> Any:
    (kind, content), *rest = tree.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dataclass":
        inner = {n: _rebuild(t, tensors, module) for n, t in rest[0][1].items()}
        return getattr(sys.modules[module], content)(**inner)
    if kind == "dict":
        return {n: _rebuild(t, tensors, module) for n, t in content.items()}
    if kind in ("tuple", "list"):
        items = [_rebuild(t, tensors, module) for t in content]
        return tuple(items) if kind == "tuple" else items
    return content
