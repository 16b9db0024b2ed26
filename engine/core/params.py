"""Arithmetic on parameters: dicts of tensors by name.

``SharedParams`` are the tensors of one model; ``ClientParams`` have a leading client axis: [S, ...] or [N, ...].
No function changes its arguments.
"""

from collections.abc import Callable, Collection

import torch
from jaxtyping import Float, Int
from torch import Tensor

SharedParams = dict[str, Tensor]
ClientParams = dict[str, Tensor]

_LONG = 2**14  # numbers in a row from which row by row is faster on a CPU than a product of all rows


def map_params(function: Callable[..., Tensor], *params: dict[str, Tensor]) -> dict[str, Tensor]:
    """Lifts ``function`` from tensors to parameters: it is applied per name."""
    return {name: function(*(p[name] for p in params)) for name in params[0]}


def clone(params: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n: p.clone() for n, p in params.items()}


def broadcast(params: SharedParams, size: int) -> ClientParams:
    """Expands one model to ``size`` clients, as a view; local training copies before it writes."""
    return {n: p.expand(size, *p.shape) for n, p in params.items()}


def gather(params: ClientParams, clients: Int[Tensor, "S"]) -> ClientParams:
    """The rows of the given clients, as a copy."""
    return {n: p.index_select(0, clients) for n, p in params.items()}


def scatter(params: ClientParams, rows: ClientParams, clients: Int[Tensor, "S"]) -> ClientParams:
    """A copy of ``params`` with the rows of the given clients replaced."""
    return {n: p.index_copy(0, clients, rows[n]) for n, p in params.items()}


def in_client_order(rows: ClientParams, clients: Int[Tensor, "S"]) -> ClientParams:
    """Sorts the rows of all clients 0..N-1, given in the order of ``clients``, into [N, ...]."""
    return gather(rows, clients.argsort())


def by_client(rows: Float[Tensor, "S ..."], clients: Int[Tensor, "S"], num_clients: int) -> Float[Tensor, "N ..."]:
    """A cohort's rows as a diagnostic of all clients: not a number where a client did not take part."""
    return rows.new_full((num_clients, *rows.shape[1:]), torch.nan).index_copy(0, clients, rows)


def take(params: ClientParams, rows: slice) -> ClientParams:
    """Consecutive rows, as views."""
    return {n: p[rows] for n, p in params.items()}


def row(params: ClientParams, index: int) -> SharedParams:
    return {n: p[index] for n, p in params.items()}


def concat(parts: list[ClientParams]) -> ClientParams:
    return parts[0] if len(parts) == 1 else {n: torch.cat([p[n] for p in parts]) for n in parts[0]}


def weighted_mean(stacked: ClientParams, weights: Float[Tensor, "S"]) -> SharedParams:
    """sum_s weights_s * stacked_s. ``weights`` sum to 1. One client of weight 1 is returned exactly."""
    return {n: torch.tensordot(weights.to(p.dtype), p, dims=1) for n, p in stacked.items()}


def mixtures(stacked: ClientParams, weights: Float[Tensor, "S K"]) -> ClientParams:
    """S weighted sums of K models [K, ...]: sum_k weights_sk * stacked_k."""
    return {n: torch.tensordot(weights.to(p.dtype), p, dims=1) for n, p in stacked.items()}


def lerp(start: dict[str, Tensor], end: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """(1 - share) * start + share * end; share 0 and 1 give an end exactly."""
    return {n: torch.lerp(p, end[n], share) for n, p in start.items()}


def flatten(stacked: ClientParams) -> Float[Tensor, "S P"]:
    """One row per client: its parameters, concatenated in the order of the names."""
    return torch.cat([p.flatten(1) for p in stacked.values()], dim=1)


def unflatten(matrix: Float[Tensor, "S P"], like: SharedParams) -> ClientParams:
    """Inverse of ``flatten``; ``like`` gives names and shapes."""
    pieces = matrix.split([p.numel() for p in like.values()], dim=1)
    return {n: piece.view(-1, *p.shape) for (n, p), piece in zip(like.items(), pieces, strict=True)}


def each(values: Float[Tensor, "S"], like: Tensor) -> Tensor:
    """Reshapes one value per client, [S], to broadcast against ``like`` [S, ...]."""
    return values.view(-1, *[1] * (like.dim() - 1))


def lerp_each(start: ClientParams, end: ClientParams, shares: Float[Tensor, "S"]) -> ClientParams:
    """``lerp`` with one share per client."""
    return {n: torch.lerp(p, end[n], each(shares, p)) for n, p in start.items()}


def dot(a: ClientParams, b: ClientParams) -> Float[Tensor, "S"]:
    """<a_s, b_s> over all parameters, per client: [S]."""
    return torch.stack([_row_dots(a[n].flatten(1), b[n].flatten(1)) for n in a]).sum(0)


def _row_dots(a: Float[Tensor, "S P"], b: Float[Tensor, "S P"]) -> Float[Tensor, "S"]:
    if a.device.type == "cpu" and a.shape[1] >= _LONG:
        return torch.stack([torch.dot(x, y) for x, y in zip(a, b, strict=True)])
    return (a * b).sum(1)


def squared_distance(a: ClientParams, b: ClientParams) -> Float[Tensor, "S"]:
    """||a_s - b_s||^2 over all parameters, per client: [S]."""
    return torch.stack([(a[n] - b[n]).flatten(1).square().sum(1) for n in a]).sum(0)


def all_finite(tensors: Collection[Tensor]) -> bool:
    return not tensors or bool(torch.stack([t.isfinite().all() for t in tensors]).all())
