"""Encodes the state of a method: safetensors with a JSON tree in the header, no pickles.

The rows of large state by client (``ClientRows``) can be kept apart, in parts that several checkpoints share: each
checkpoint then writes the rows that are new since the last one.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from engine.core.client_rows import ClientRows, RowMemory, RowStore
from engine.core.errors import CheckpointInvalid
from engine.core.safetensors_header import metadata

PART_BYTES = 256 * 2**20
_WASTE = 2  # parts with more rows than this many times those in use are written anew
Write = Callable[[bytes], str]
Read = Callable[[str], bytes]


@dataclass
class Parts:
    """The parts that hold the rows of the last checkpoint."""

    names: list[str] = field(default_factory=list)
    serials: dict[str, Tensor] = field(default_factory=dict)  # stored rows of each store, ascending

    @property
    def num_rows(self) -> int:
        return sum(map(len, self.serials.values()))


def to_bytes(value: Any, parts: Parts | None = None, write: Write | None = None) -> bytes:
    """Encodes dataclasses, dicts, lists, tuples, tensors, numbers, strings and None, arbitrarily nested.

    Raises TypeError for other values, and for keys of dicts that are not strings.
    With ``write``, which stores a part and returns its name, rows that ``parts`` lacks are written as parts, and it is
    updated; else all rows are included.
    """
    tensors: dict[str, Tensor] = {}
    stores: dict[str, RowStore] = {}
    tree = _describe(value, "", tensors, stores)
    for name, store in stores.items():
        tensors[f"store:{name}"] = store.start.detach().cpu().contiguous().clone()
    names: list[str] = []
    if parts is not None and write is not None:
        _write_rows(stores, parts, write)
        names = parts.names
    else:
        for name, store in stores.items():
            tensors |= _rows(name, store, store.in_use())
    return safetensors.torch.save(tensors, metadata={"tree": json.dumps(tree), "parts": json.dumps(names)})


def from_bytes(
    data: bytes, module: str, device: torch.device, memory: RowMemory | None = None, read: Read | None = None
) -> tuple[Any, Parts]:
    """Inverse of ``to_bytes``; also returns the parts. Dataclasses are looked up in ``module`` only.

    Raises CheckpointInvalid.
    """
    try:
        head = metadata(data)
        tree, names = json.loads(head["tree"]), json.loads(head.get("parts", "[]"))
        tensors = safetensors.torch.load(data)
        starts = {n.removeprefix("store:"): t for n, t in tensors.items() if n.startswith("store:")}
        stores = {n: RowStore(t.to(device), memory or RowMemory()) for n, t in starts.items()}
        places = _read_rows(stores, tensors, names, read)
        kept = {n: t.to(device) for n, t in tensors.items() if not n.startswith(("store:", "rows:", "serials:"))}
        value = _rebuild(tree, kept, module, stores, places)
        return value, Parts(names, {n: serials for n, (serials, _) in places.items()})
    except (ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise CheckpointInvalid(f"the checkpoint does not fit this run ({error}); rerun the run") from error


def _write_rows(stores: Mapping[str, RowStore], parts: Parts, write: Write) -> None:
    """Writes the rows that the parts lack, or all rows anew if most rows of the parts are no longer in use."""
    in_use = {name: store.in_use() for name, store in stores.items()}
    if parts.num_rows > _WASTE * sum(map(len, in_use.values())):
        parts.names, parts.serials = [], {}
    waiting: list[tuple[str, RowStore, Tensor]] = []
    size = 0
    for name, store in stores.items():
        stored = parts.serials.get(name, torch.zeros(0, dtype=torch.int64))
        new = in_use[name][~torch.isin(store.serials[in_use[name]], stored)]
        row_bytes = max(1, store.start.nbytes)
        for some in new.split(max(1, PART_BYTES // row_bytes)) if len(new) else ():
            if waiting and size + len(some) * row_bytes > PART_BYTES:
                _write_part(waiting, parts, write)
                waiting, size = [], 0
            waiting.append((name, store, some))
            size += len(some) * row_bytes
    if waiting:
        _write_part(waiting, parts, write)


def _write_part(rows: Sequence[tuple[str, RowStore, Tensor]], parts: Parts, write: Write) -> None:
    tensors: dict[str, Tensor] = {}
    for name, store, places in rows:
        tensors |= _rows(name, store, places)
    parts.names = [*parts.names, write(safetensors.torch.save(tensors))]
    for name, store, places in rows:
        stored = parts.serials.get(name, torch.zeros(0, dtype=torch.int64))
        parts.serials[name] = torch.cat([stored, store.serials[places]])


def _rows(name: str, store: RowStore, places: Tensor) -> dict[str, Tensor]:
    return {f"rows:{name}": store.read(places).cpu(), f"serials:{name}": store.serials[places]}


def _read_rows(
    stores: Mapping[str, RowStore], included: Mapping[str, Tensor], names: Sequence[str], read: Read | None
) -> dict[str, tuple[Tensor, ClientRows]]:
    """Fills the stores. Returns the serials of each store, ascending, and their rows."""
    found: dict[str, list[tuple[Tensor, ClientRows]]] = {name: [] for name in stores}
    for tensors in _all_parts(included, names, read):
        for name, store in stores.items():
            if f"rows:{name}" in tensors:
                serials = tensors[f"serials:{name}"]
                written = store.write(tensors[f"rows:{name}"], serials)
                found[name].append((serials, store.version(written)))  # a version keeps the places taken
    places = {}
    for name, pieces in found.items():
        serials = torch.cat([torch.zeros(0, dtype=torch.int64), *(s for s, _ in pieces)])
        at = torch.cat([torch.zeros(0, dtype=torch.int32), *(v.version.places for _, v in pieces)])
        order = serials.argsort()
        places[name] = (serials[order], stores[name].version(at[order]))
    return places


def _all_parts(
    included: Mapping[str, Tensor], names: Sequence[str], read: Read | None
) -> Iterator[Mapping[str, Tensor]]:
    yield included
    if names and read is None:
        raise CheckpointInvalid("the rows of the checkpoint are stored apart from it; rerun the run")
    for name in names:
        assert read is not None
        yield safetensors.torch.load(read(name))


def _describe(value: Any, path: str, tensors: dict[str, Tensor], stores: dict[str, RowStore]) -> Any:
    if isinstance(value, ClientRows):
        known = {id(store): name for name, store in stores.items()}
        name = known.get(id(value.store), path)
        stores[name] = value.store
        clients = value.touched
        tensors[f"{path}/clients"] = clients
        tensors[f"{path}/serials"] = value.store.serials[value.version.places[clients].long()]
        return {"rows": path, "store": name, "size": len(value)}
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {"tensor": path}
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: _describe(getattr(value, f.name), f"{path}/{f.name}", tensors, stores) for f in fields(value)}
        return {"dataclass": type(value).__name__, "fields": inner}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a key of a state must be a string, not {key!r} (at {path or 'the top'})")
        return {"dict": {k: _describe(v, f"{path}/{_escaped(k)}", tensors, stores) for k, v in value.items()}}
    if isinstance(value, tuple | list):
        items = [_describe(v, f"{path}/{i}", tensors, stores) for i, v in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"a state must not contain a {type(value).__name__} (at {path or 'the top'})")


def _escaped(key: str) -> str:
    """A key as part of a tensor's name, in which ``/`` separates keys; as in JSON pointers (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _rebuild(
    tree: Any,
    tensors: dict[str, Tensor],
    module: str,
    stores: Mapping[str, RowStore],
    places: Mapping[str, tuple[Tensor, ClientRows]],
) -> Any:
    def inner(branch: Any) -> Any:
        return _rebuild(branch, tensors, module, stores, places)

    (kind, content), *rest = tree.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "rows":
        return _version(content, dict(rest), tensors, stores, places)
    if kind == "dataclass":
        return getattr(sys.modules[module], content)(**{n: inner(t) for n, t in rest[0][1].items()})
    if kind == "dict":
        return {n: inner(t) for n, t in content.items()}
    if kind in ("tuple", "list"):
        items = [inner(t) for t in content]
        return tuple(items) if kind == "tuple" else items
    return content


def _version(
    path: str,
    described: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    stores: Mapping[str, RowStore],
    places: Mapping[str, tuple[Tensor, ClientRows]],
) -> ClientRows:
    name = described["store"]
    serials, at = places[name][0], places[name][1].version.places
    wanted = tensors[f"{path}/serials"].cpu()
    index = torch.searchsorted(serials, wanted)
    if len(wanted) and (len(serials) == 0 or not torch.equal(serials[index.clamp(max=len(serials) - 1)], wanted)):
        raise CheckpointInvalid("the checkpoint lacks rows of its state; rerun the run")
    of_clients = torch.full((int(described["size"]),), -1, dtype=torch.int32)
    of_clients[tensors[f"{path}/clients"].cpu()] = at[index]
    return stores[name].version(of_clients)
