"""The channel of one round where a dial is on. It records what was sent, what arrived and how it was combined.

Inside an exchange: attack -> compress -> wire, where bytes are counted -> drop late uploads -> decompress. Then the
aggregator; with privacy of clients ``aggregate`` clips, sums and adds noise instead.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.aggregators.mean import Mean
from engine.attacks import Exchange
from engine.channel import Arrived, Channel
from engine.channel.clock import Clock
from engine.channel.dials import ChannelState, Dials
from engine.channel.plain_channel import mean_inside
from engine.compressors import Updates
from engine.compressors.none import Uncompressed
from engine.core.client_rows import BLOCK_BYTES, ClientRows, RowMemory, for_clients
from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    flatten,
    gather,
    map_params,
    row,
    scatter,
    unflatten,
    weighted_mean,
)
from engine.core.streams import key, torch_stream
from engine.federation.batches import Cohort
from engine.privacy.client_level import ClientLevel

_MODELS, _CHANGES = "models", "changes"  # a method may send both


@dataclass
class RoundChannel(Channel):
    """The records of a round. ``close`` gives the state for the next round, ``values`` what is recorded."""

    dials: Dials
    state: ChannelState
    round: int
    memory: RowMemory = field(default_factory=RowMemory)
    clock: Clock | None = None  # where devices are simulated
    is_empty_draw: bool = False  # no client was drawn: the one that trains in their place does not count
    has_feedback: bool = True  # what a compressor leaves out may be added to the next upload
    bytes_up: int = 0
    exchanges: int = 0
    fell_back: int = 0
    releases: int = 0
    clip: float | None = None  # of the next release, after one in this round
    protected: dict[str, float] = field(default_factory=dict)  # what is recorded of the release
    _values: dict[str, Tensor] = field(default_factory=dict)
    _residual: dict[str, ClientParams] = field(default_factory=dict)
    _recorded: str = ""  # the kind of upload whose residual is recorded
    _errors: list[Tensor] = field(default_factory=list)

    def deliver(
        self,
        uploads: ClientParams,
        reference: ClientParams | None,
        cohort: Cohort,
        weights: Float[Tensor, "S"],
        num_values: Int[Tensor, "S"] | None = None,
        *,
        is_change: bool = True,
        num_extra: int = 0,
    ) -> Arrived:
        if self.dials.privacy is not None and uploads:
            raise RuntimeError("the server reads single uploads: client-level privacy does not hold for this method")
        if reference is None:
            reference = map_params(torch.zeros_like, uploads)
        return self._exchange(uploads, reference, cohort, weights, num_values, is_change=is_change, num_extra=num_extra)

    def combine(self, arrived: Arrived, reference: SharedParams | None, cohort: Cohort) -> SharedParams:
        return self._combined(arrived, _zero(arrived.params) if reference is None else reference, cohort)

    def combine_inside(
        self,
        arrived: Arrived,
        models: ClientParams,
        labels: Int[Tensor, "A"],
        cohort: Cohort,
        only: Collection[int] | None = None,
    ) -> ClientParams:
        if isinstance(self.dials.aggregator, Mean):
            return mean_inside(models, arrived.params, labels, arrived.weights)
        for k in labels.unique().tolist() if only is None else only:
            members = (labels == k).nonzero()[:, 0]
            own = arrived.weights[members]
            new = self._combined(arrived.part(members, own / own.sum()), row(models, k), cohort)
            models = scatter(models, {n: p[None] for n, p in new.items()}, labels.new_tensor([k]))
        return models

    def aggregate(
        self,
        uploads: ClientParams,
        reference: SharedParams | None,
        cohort: Cohort,
        weights: Float[Tensor, "S"],
        out_of: int | None = None,
    ) -> SharedParams:
        if reference is None:
            reference = _zero(uploads)
        arrived = self._exchange(
            uploads, broadcast(reference, cohort.size), cohort, weights, is_recorded=out_of is None
        )
        if self.dials.privacy is not None and reference:
            return self._released(self.dials.privacy, arrived, reference, cohort)
        return self._combined(arrived, reference, cohort, out_of)

    def computed_by(self, cohort: Cohort) -> None:
        if self.clock is not None:
            self.clock.computed_by(cohort)

    def peek(self, known: SharedParams, uploads: ClientParams, weights: Float[Tensor, "S"]) -> SharedParams:
        return weighted_mean(uploads, weights) if self.dials.loses_nothing else known

    def values(self) -> dict[str, float | Tensor]:
        """What the round records of the channel."""
        found: dict[str, float | Tensor] = {"aggregator.fell_back": float(self.fell_back), **self._values}
        found |= self.protected
        if self._errors:
            found["compression.error"] = float(torch.cat(self._errors).mean())
        if self._recorded:
            found["residual_norm"] = _lengths(self._residual[self._recorded]["residual"])
        return found

    def close(self, cohort: Cohort) -> ChannelState:
        """The state for the next round, after these participants have trained."""
        took = 0.0 if self.clock is None else self.clock.duration(cohort)
        older = {_older(kind) for kind in self._residual}
        waiting = {kind: rows for kind, rows in self.state.residual.items() if kind not in older}
        return replace(
            self.state,
            rounds=self.state.rounds + 1,
            residual=waiting | self._residual,
            simulated_s=self.state.simulated_s + took,
            releases=self.state.releases + self.releases,
            clip=self.state.clip if self.clip is None else self.clip,
        )

    def _exchange(
        self,
        uploads: ClientParams,
        reference: ClientParams,
        cohort: Cohort,
        weights: Float[Tensor, "S"],
        num_values: Int[Tensor, "S"] | None = None,
        is_recorded: bool = True,
        is_change: bool = True,
        num_extra: int = 0,
    ) -> Arrived:
        self.exchanges += 1
        before = self.bytes_up
        sent = self._attacked(uploads, reference, cohort)
        if sent:
            self.bytes_up += num_extra * cohort.size * next(iter(sent.values())).element_size()
            sent = self._compressed(sent, reference, cohort, num_values, is_recorded, is_change)
            if is_recorded:
                self._record("update_norm", cohort.clients, _norms(sent, reference), torch.nan)
        whole = Arrived(sent, torch.arange(cohort.size, device=cohort.clients.device), weights)
        return self._in_time(whole, cohort, self.bytes_up - before, num_values) if sent else whole

    def _in_time(self, sent: Arrived, cohort: Cohort, num_bytes: int, num_values: Int[Tensor, "S"] | None) -> Arrived:
        """The uploads that the server uses, of those sent with this many bytes in all."""
        if self.clock is None:
            return sent
        parts = np.ones(cohort.size) if num_values is None else num_values.cpu().numpy()
        is_kept = self.clock.arrives(cohort, num_bytes * parts / max(parts.sum(), 1))
        if is_kept.all():
            return sent
        rows = torch.from_numpy(np.flatnonzero(is_kept)).to(sent.rows.device)
        own = sent.weights[rows]
        uniform = torch.full_like(own, 1 / max(len(own), 1))  # where the method gives all of them the weight 0
        return sent.part(rows, own / own.sum() if bool(own.any()) else uniform)

    def _attacked(self, uploads: ClientParams, reference: ClientParams, cohort: Cohort) -> ClientParams:
        """The uploads, with those of malicious clients replaced."""
        attack, who = self.dials.attack, self.dials.is_malicious
        if attack is None or who is None or not uploads:
            return uploads
        is_malicious = who[cohort.clients]
        if not bool(is_malicious.any()):
            return uploads

        def draw(place: int) -> torch.Generator:
            return torch_stream(self.dials.seed, "attack", self.round, self.exchanges, cohort.client_ids[place])

        delta = flatten(map_params(torch.sub, uploads, reference))
        changed = attack.corrupt(Exchange(delta, is_malicious, draw))
        if changed is None:
            return uploads
        places = is_malicious.nonzero()[:, 0]
        delta_of = unflatten(changed, row(uploads, 0))
        return scatter(uploads, map_params(torch.add, gather(reference, places), delta_of), places)

    def _compressed(
        self,
        uploads: ClientParams,
        reference: ClientParams,
        cohort: Cohort,
        num_values: Int[Tensor, "S"] | None,
        is_recorded: bool,
        is_change: bool,
    ) -> ClientParams:
        """What the server can read of the uploads. Counts the bytes, and keeps what clients have yet to send."""
        compressor, size = self.dials.compressor, sum(p[0].numel() for p in uploads.values())
        if num_values is None:
            num_values = torch.full_like(cohort.clients, size)
        if isinstance(compressor, Uncompressed):
            self.bytes_up += int(num_values.sum()) * next(iter(uploads.values())).element_size()
            return uploads
        kind = f"{_MODELS if is_recorded else _CHANGES}:{','.join(uploads)}"
        wanted = flatten(map_params(torch.sub, uploads, reference))
        adds_rest = compressor.feedback and self.has_feedback and is_change
        residual = self._residual_of(kind, wanted[0]) if adds_rest else None
        delta = wanted if residual is None else wanted + gather(residual, cohort.clients)["residual"]
        tensors = [p[0].numel() for p in uploads.values()]
        stream = key(self.dials.seed, "quantize", self.round, self.exchanges)
        found = compressor.compress(Updates(delta, tensors, num_values, cohort.clients, stream))
        if found is None:
            self.bytes_up += int(num_values.sum()) * wanted.element_size()
            return uploads
        self.bytes_up += int(((found.bits + 7) // 8).sum())
        lengths = torch.linalg.vector_norm(wanted, dim=1)
        errors = torch.linalg.vector_norm(found.received - wanted, dim=1) / lengths
        self._errors.append(errors[lengths > 0])
        if residual is not None:
            rest = {"residual": delta - found.received}
            # The server does not use what the stand-in of an empty draw sends, so that client keeps its rest.
            self._residual[kind] = residual if self.is_empty_draw else scatter(residual, rest, cohort.clients)
            if is_recorded:
                self._recorded = kind
        return map_params(torch.add, reference, unflatten(found.received, row(uploads, 0)))

    def _residual_of(self, kind: str, like: Float[Tensor, "P"]) -> ClientParams:
        """What each client has not sent yet of this kind of upload, [N, P]."""
        for known, name in ((self._residual, kind), (self.state.residual, kind), (self.state.residual, _older(kind))):
            if name in known:
                return known[name]
        return for_clients({"residual": torch.zeros_like(like)}, self.dials.num_clients, self.memory)

    def _combined(
        self, arrived: Arrived, reference: SharedParams, cohort: Cohort, out_of: int | None = None
    ) -> SharedParams:
        """reference + rule(Delta), or A / out_of rule(Delta) for a reference of 0."""
        if not arrived.size or not reference:
            return reference
        clients = cohort.clients[arrived.rows]
        order = clients.argsort()  # so that ties go to the client with the lower number
        matrix = flatten(gather(map_params(torch.sub, arrived.params, reference), order))
        expected = self.dials.expected_malicious(arrived.size)
        found = self.dials.aggregator.combine(matrix, arrived.weights[order], expected)
        self.fell_back += found.fell_back
        share = 1.0 if out_of is None else arrived.size / out_of
        weight = torch.empty_like(found.weight).index_copy(0, order, found.weight)
        if found.delta is None:
            new = _mean_of_kept(arrived.params, weight * share)
        else:
            moved = row(unflatten(found.delta[None], reference), 0)
            new = {n: torch.add(p, moved[n], alpha=share) for n, p in reference.items()}
        if out_of is None:
            self._record_update(weight, matrix, _update(new, reference), clients, order)
        return new

    def _released(
        self, mechanism: ClientLevel, arrived: Arrived, reference: SharedParams, cohort: Cohort
    ) -> SharedParams:
        """The reference, moved by the noisy mean of the updates that arrived; one call is one release."""
        if self.releases:
            raise RuntimeError("a second aggregate in a round: client-level privacy does not hold for this method")
        self.releases += 1
        if self.is_empty_draw:
            arrived = arrived.part(arrived.rows[:0], arrived.weights[:0])
        clients = cohort.clients[arrived.rows]
        order = clients.argsort()  # so that the sum depends on the clients alone
        matrix = flatten(gather(map_params(torch.sub, arrived.params, reference), order))
        clip = mechanism.first_clip if self.state.clip is None else self.state.clip
        found = mechanism.release(matrix, clip, self.round)
        self.clip, self.protected = found.next_clip, found.values
        weight = torch.empty_like(found.weight).index_copy(0, order, found.weight)
        self._record_update(weight, matrix, found.update, clients, order)
        moved = row(unflatten(found.update[None], reference), 0)
        return map_params(torch.add, reference, moved)

    def _record_update(
        self,
        weight: Float[Tensor, "A"],
        matrix: Float[Tensor, "A P"],
        update: Float[Tensor, "P"],
        clients: Int[Tensor, "A"],
        order: Int[Tensor, "A"],
    ) -> None:
        """The share of each client in the update, and the cosine between its Delta and the update."""
        self._record("aggregator.weight", clients, weight, 0.0)
        lengths = torch.linalg.vector_norm(matrix, dim=1) * torch.linalg.vector_norm(update)
        cosine = (matrix @ update / lengths).where(lengths > 0, torch.nan)
        self._record("update_cosine", clients[order], cosine, torch.nan)

    def _record(self, name: str, clients: Int[Tensor, "A"], values: Float[Tensor, "A"], absent: float) -> None:
        """A value of each of these clients, in this round's array of all."""
        known = self._values.get(name)
        if known is None:
            known = values.new_full((self.dials.num_clients,), absent)
        self._values[name] = known.index_copy(0, clients, values)


def _older(kind: str) -> str:
    """The name of its residual in older checkpoints, where all uploads of a run have the same length."""
    return kind.partition(":")[0]


def _zero(uploads: ClientParams) -> SharedParams:
    """The reference 0 of [S, ...] uploads, without the client axis."""
    return {n: p.new_zeros(p.shape[1:]) for n, p in uploads.items()}


def _norms(uploads: ClientParams, reference: ClientParams) -> Float[Tensor, "S"]:
    """||Delta_i|| over all numbers."""
    lengths = [torch.linalg.vector_norm((p - reference[n]).flatten(1), dim=1) for n, p in uploads.items()]
    return torch.linalg.vector_norm(torch.stack(lengths), dim=0)


def _lengths(rows: Float[Tensor, "N P"]) -> Float[Tensor, "N"]:
    """||e_i|| of all clients: 0 where a row does not exist, and a few at a time, since all may not fit into memory."""
    if not isinstance(rows, ClientRows):
        return torch.linalg.vector_norm(rows, dim=1)
    found = torch.zeros(len(rows), dtype=rows.dtype, device=rows.device)
    for clients in rows.touched.split(max(1, BLOCK_BYTES // (rows.shape[1] * rows.element_size()))):
        found[clients] = torch.linalg.vector_norm(rows.rows_of(clients), dim=1)
    return found


def _mean_of_kept(uploads: ClientParams, weight: Float[Tensor, "A"]) -> SharedParams:
    """The mean of the uploads with a weight: 0 times one that is not finite would be NaN."""
    kept = weight != 0
    if bool(kept.all()):
        return weighted_mean(uploads, weight)
    rows = kept.nonzero()[:, 0]
    return weighted_mean(gather(uploads, rows), weight[rows])


def _update(new: SharedParams, reference: SharedParams) -> Float[Tensor, "P"]:
    """The update of the server as one vector."""
    return torch.cat([(p - reference[n]).flatten() for n, p in new.items()])
