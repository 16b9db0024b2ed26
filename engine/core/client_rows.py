"""Sparse per-client state: ``ClientRows`` looks like a tensor [N, ...] and stores only the rows that were written.

All other rows are equal to one common initial row. A tensor with a row for each of a million clients would not fit into
memory, and a run trains few of them in a round. The written rows are in blocks of a ``RowStore``, in memory up to the
limit of its ``RowMemory``, beyond it in a sparse memory-mapped file, which has no name, so that nothing of it is left
when the process ends.

``index_select`` gives rows as an ordinary tensor and ``index_copy`` a new ``ClientRows`` that shares all other rows
with the old one: state goes in, new state comes out, and a round costs its participants. A row is written once; its
place is used again when no ``ClientRows`` refers to it. Anything else that torch does with such a tensor sees all N
rows, and raises Unsupported where they would be too large.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from engine.core.environment import state_bytes
from engine.core.errors import Unsupported

DENSE_BYTES = 64 * 2**20  # up to which the state of all clients is an ordinary tensor
DENSE_SHARE_GPU = 0.25  # of a GPU's memory, likewise
WHOLE_BYTES = 2 * 2**30  # of all N rows, where an operation needs them
BLOCK_BYTES = 32 * 2**20
_UNTOUCHED = -1


@dataclass(eq=False)
class RowMemory:
    """Blocks of bytes for the rows of a run: in memory up to a limit, then in a file."""

    limit: int = field(default_factory=state_bytes)
    folder: Path | None = None  # of the file; by default the folder for temporary files
    used: int = 0  # bytes in memory
    filed: int = 0  # bytes in the file
    _file: int | None = None
    _maps: list[mmap.mmap] = field(default_factory=list)

    def block(self, size: int) -> Tensor:
        """``size`` new bytes."""
        if self.used + size <= self.limit:
            self.used += size
            return torch.empty(size, dtype=torch.uint8)
        if self._file is None:
            self._file = _nameless(self.folder)
            weakref.finalize(self, os.close, self._file)
        whole = -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        os.truncate(self._file, self.filed + whole)
        mapped = mmap.mmap(self._file, whole, offset=self.filed)
        self.filed += whole
        self._maps.append(mapped)
        return torch.frombuffer(mapped, dtype=torch.uint8, count=size)

    def release(self) -> None:
        """Lets the system write the file's pages and take their memory; the rows stay readable."""
        for mapped in self._maps if hasattr(mmap, "MADV_DONTNEED") else ():
            mapped.madvise(mmap.MADV_DONTNEED)


def _nameless(folder: Path | None) -> int:
    """The descriptor of a new file that ends with the process."""
    with tempfile.TemporaryFile(prefix="fedscape-state-", dir=folder) as file:
        return os.dup(file.fileno())


@dataclass(eq=False)
class _Version:
    """Where the row of each client is; versions share rows."""

    places: Tensor  # [N] int32, _UNTOUCHED for the start


class RowStore:
    """The rows of all versions of one tensor [N, ...]."""

    def __init__(self, start: Tensor, memory: RowMemory) -> None:
        self.start, self.memory, self.device = start, memory, start.device
        row_bytes = max(1, start.numel() * start.element_size())
        self.per_block = max(1, BLOCK_BYTES // row_bytes)
        self._blocks: list[Tensor] = []
        self._free = torch.zeros(0, dtype=torch.int64)
        self._versions: weakref.WeakSet[_Version] = weakref.WeakSet()
        self.serials = torch.zeros(0, dtype=torch.int64)  # of the row at each place: no two rows ever written share one
        self._next_serial = 0

    def version(self, places: Tensor) -> "ClientRows":
        version = _Version(places)
        self._versions.add(version)
        return ClientRows(self, version)

    def read(self, places: Tensor) -> Tensor:
        """The rows at ``places`` [S], on the device of the run."""
        rows = torch.empty(len(places), *self.start.shape, dtype=self.start.dtype)
        rows[places == _UNTOUCHED] = self.start.cpu()
        for block, found, inside in self._by_block(places):
            rows[found] = self._blocks[block][inside]
        self.memory.release()
        return rows.to(self.device)

    def write(self, rows: Tensor, serials: Tensor | None = None) -> Tensor:
        """The places [S] of new rows; ``serials`` are given for rows of a checkpoint."""
        places = self._take(len(rows))
        if serials is None:
            serials = torch.arange(self._next_serial, self._next_serial + len(rows))
        if len(serials):
            self._next_serial = max(self._next_serial, int(serials.max()) + 1)
        self.serials[places] = serials
        rows = rows.detach().cpu()
        for block, found, inside in self._by_block(places):
            self._blocks[block][inside] = rows[found]
        self.memory.release()
        return places.to(torch.int32)

    def in_use(self) -> Tensor:
        """The places that any version refers to, ascending."""
        is_used = torch.zeros(len(self.serials), dtype=torch.bool)
        for version in self._versions:
            is_used[version.places[version.places != _UNTOUCHED].long()] = True
        return torch.nonzero(is_used)[:, 0]

    def _take(self, count: int) -> Tensor:
        if len(self._free) < count:
            is_free = torch.ones(len(self.serials), dtype=torch.bool)
            is_free[self.in_use()] = False
            self._free = torch.nonzero(is_free)[:, 0]
        while len(self._free) < count:
            self._grow()
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def _grow(self) -> None:
        first = len(self.serials)
        size = self.per_block * self.start.numel() * self.start.element_size()
        block = self.memory.block(max(1, size))[:size].view(self.start.dtype)
        self._blocks.append(block.view(self.per_block, *self.start.shape))
        self.serials = torch.cat([self.serials, torch.full((self.per_block,), -1)])
        self._free = torch.cat([self._free, torch.arange(first, first + self.per_block)])

    def _by_block(self, places: Tensor) -> Sequence[tuple[int, Tensor, Tensor]]:
        """For each block: the indices of its ``places``, and where in the block they are."""
        places = places.long()
        blocks = torch.where(places == _UNTOUCHED, -1, places // self.per_block)
        order = blocks.argsort(stable=True)
        which, counts = blocks[order].unique_consecutive(return_counts=True)
        parts = zip(which.tolist(), order.split(counts.tolist()), strict=True)
        return [(block, found, places[found] % self.per_block) for block, found in parts if block >= 0]


class ClientRows(Tensor):
    """[N, ...] of which only the touched rows exist. Immutable."""

    store: RowStore
    version: _Version

    @staticmethod
    def __new__(cls, store: RowStore, version: _Version) -> "ClientRows":
        shape = (len(version.places), *store.start.shape)
        rows: ClientRows = Tensor._make_wrapper_subclass(cls, shape, dtype=store.start.dtype, device=store.device)
        return rows

    def __init__(self, store: RowStore, version: _Version) -> None:
        self.store, self.version = store, version

    @classmethod
    def of_start(cls, start: Tensor, size: int, memory: RowMemory) -> "ClientRows":
        """``size`` times the same row, none of which exists yet."""
        return RowStore(start, memory).version(torch.full((size,), _UNTOUCHED, dtype=torch.int32))

    @property
    def touched(self) -> Tensor:
        """The clients [T] whose rows exist, ascending."""
        return torch.nonzero(self.version.places != _UNTOUCHED)[:, 0]

    def rows_of(self, clients: Tensor) -> Tensor:
        return self.store.read(self.version.places[clients.cpu()])

    def with_rows(self, clients: Tensor, rows: Tensor) -> "ClientRows":
        places = self.version.places.clone()
        places[clients.cpu()] = self.store.write(rows)
        return self.store.version(places)

    def whole(self) -> Tensor:
        """All rows, as an ordinary tensor. Raises Unsupported if they are too large."""
        size = self.numel() * self.element_size()
        if size > WHOLE_BYTES:
            raise Unsupported(
                f"this needs the state of all {len(self)} clients at once, {size / 1e9:,.1f} GB; choose fewer clients, "
                "a smaller model, or a method that does not"
            )
        return self.store.read(self.version.places)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"ClientRows({list(self.shape)}, {self.dtype}, {len(self.touched)} touched)"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        aten, first = torch.ops.aten, args[0] if args else None
        if isinstance(first, ClientRows):
            match func:
                case aten.detach.default | aten.clone.default | aten.alias.default:
                    return ClientRows(first.store, first.version)
                case aten.index_select.default if args[1] == 0:
                    return first.rows_of(args[2])
                case aten.index.Tensor if len(args[1]) == 1 and args[1][0].dtype == torch.int64:
                    places = args[1][0]
                    return first.rows_of(places.flatten()).view(*places.shape, *first.shape[1:])
                case aten.select.int if args[1] == 0:
                    return first.rows_of(torch.tensor([range(len(first))[args[2]]]))[0]
                case aten.index_copy.default if args[1] == 0 and not isinstance(args[3], ClientRows):
                    return first.with_rows(args[2], args[3])
        whole = tree_map(lambda value: value.whole() if isinstance(value, ClientRows) else value, (args, kwargs or {}))
        return func(*whole[0], **whole[1])


def for_clients(start: dict[str, Tensor], size: int, memory: RowMemory) -> dict[str, Tensor]:
    """``start`` for each of ``size`` clients, [N, ...]: ordinary tensors, or ClientRows where these would be large."""
    device = next(iter(start.values())).device
    if size * sum(p.nbytes for p in start.values()) <= _dense_bytes(device):
        return {n: p.expand(size, *p.shape).clone() for n, p in start.items()}
    return {n: ClientRows.of_start(p, size, memory) for n, p in start.items()}


def _dense_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return DENSE_BYTES
    return int(DENSE_SHARE_GPU * torch.cuda.get_device_properties(device).total_memory)
