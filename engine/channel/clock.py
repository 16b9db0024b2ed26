"""The simulated clock of a round: when uploads arrive, which of them the server uses, and how long the round takes.

    t_i = bytes_down / down_i + r m_i c_i + bytes_up_i / up_i

m_i samples of client i's batches, c_i its seconds for the gradient of a sample, r the gradients that the backend has
counted so far over those of the batches: 1 for FedAvg, 2 for Ditto. An upload is late if t_i exceeds the deadline, or
if enough others report first; a client that drops out never reports. All of them have trained.

A round lasts until the last upload that is kept, or else min(deadline, max t_i); the server notices a lost connection,
so that without a deadline a client that dropped out costs the time at which its upload was due. What a method sends
without training in between is one message: who arrives is decided with its first part, and downloads are counted once.
A client whose upload was left out stays out for the rest of the round.

What is computed before a message is computed by the clients that send it. Where messages in a round come from different
clients, as FedDBE's first from all of them and its second from the cohort, each of these groups has an r and m_i of its
own: the seconds of a client add up over its groups, and the round lasts until the last group has ended.
"""

from dataclasses import dataclass, field
from math import inf

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from engine.federation.batches import Cohort
from engine.federation.systems import Systems


@dataclass
class _Group:
    """Clients with messages in a row, and what they have computed and sent until the last one."""

    clients: Int[np.ndarray, "S"]
    before: int  # gradients before theirs
    samples: Float[np.ndarray, "S"]  # r m_i
    bytes_up: Float[np.ndarray, "S"]
    is_kept: Bool[np.ndarray, "S"]  # of the last message
    messages: int = 0  # 0: they only compute
    at: int = -1  # gradients at the last message

    @property
    def lost(self) -> Int[np.ndarray, "L"]:
        return self.clients[~self.is_kept]


def _group(clients: tuple[int, ...], before: int) -> _Group:
    count = len(clients)
    return _Group(np.array(clients, np.int64), before, np.zeros(count), np.zeros(count), np.ones(count, bool))


@dataclass
class Clock:
    """One round. ``count`` is given the gradients of the backend, ``arrives`` each exchange, ``finish`` ends it."""

    systems: Systems
    round: int
    participation: float
    sampled: int  # clients, over-selected ones included
    bytes_down: Int[np.ndarray, "N"]  # of each client, for one message
    gradients: int = 0
    _ends: float = 0.0  # when the server stops waiting
    _out: set[int] = field(default_factory=set)
    _groups: list[_Group] = field(default_factory=lambda: [_group((), 0)])

    @property
    def messages(self) -> int:
        return sum(group.messages for group in self._groups)

    def count(self, gradients: int) -> None:
        self.gradients += gradients

    def arrives(self, cohort: Cohort, bytes_up: Float[np.ndarray, "S"]) -> Bool[np.ndarray, "S"]:
        """Which participants' uploads the server uses; ``bytes_up`` are the bytes of each."""
        group = self._groups[-1]
        if not group.messages or not np.array_equal(group.clients, cohort.client_ids):
            group = self._next_group(cohort)
        group.bytes_up += bytes_up
        if group.at != self.gradients:  # a new message
            group.messages += 1
            self._charge(group, cohort)
            group.is_kept = self._keep(cohort)
            self._out.update(group.lost.tolist())
        self._ends = max(self._ends, self._end(cohort))
        return group.is_kept

    def computed_by(self, cohort: Cohort) -> None:
        """The gradients since the last message are those of these clients, who send nothing now."""
        self._charge(self._next_group(cohort), cohort)
        self._ends = max(self._ends, self._end(cohort))

    def finish(self, reported: int) -> None:
        """The round is over. What the backend computed beyond the method's own count measured it and takes no time."""
        self.gradients = max(self._sent, min(self.gradients, reported))

    def seconds(self, cohort: Cohort) -> Float[np.ndarray, "S"]:
        """t_i of the participants, after what they have computed and sent so far."""
        samples, up, down = np.zeros((3, self.systems.num_clients))
        for group in self._groups:
            samples[group.clients] += group.samples
            up[group.clients] += group.bytes_up
            down[group.clients] += group.messages * self.bytes_down[group.clients]
        clients, after = np.array(cohort.client_ids), self._samples(cohort, self.gradients - self._sent)
        compute = self.systems.compute_s(clients, samples[clients] + after)
        return compute + self.systems.send_s(clients, down[clients], up[clients])

    def duration(self, cohort: Cohort) -> float:
        """The seconds of the round, ``cohort`` being the one that trained. Training after the last message counts."""
        after = self._samples(cohort, self.gradients - self._sent)
        rest = self.systems.compute_s(np.array(cohort.client_ids), after)
        return self._ends + float(rest.max(initial=0.0))

    def values(self, cohort: Cohort) -> dict[str, float | Tensor]:
        """The recorded values of the round: who arrived with the last message, and what lost uploads wasted."""
        *others, last = self._groups
        arrived = torch.zeros(self.systems.num_clients)
        arrived[torch.from_numpy(last.clients[last.is_kept])] = float(last.messages > 0)
        dropped = int(np.isin(last.lost, self.systems.dropped(self.round)).sum())
        own = self._samples(cohort, self.gradients - last.before)[np.isin(np.array(cohort.client_ids), last.lost)]
        return {
            "arrived": arrived,
            "late": float(len(last.lost) - dropped),
            "dropped": float(dropped),
            "wasted_gradients": float(own.sum() + sum(group.samples[~group.is_kept].sum() for group in others)),
            "wasted_bytes": float(sum(self._wasted_bytes(group) for group in self._groups)),
        }

    def _next_group(self, cohort: Cohort) -> _Group:
        self._groups.append(_group(cohort.client_ids, self._sent))
        return self._groups[-1]

    def _charge(self, group: _Group, cohort: Cohort) -> None:
        """The gradients so far, without those of earlier groups, are the group's."""
        group.at, group.samples = self.gradients, self._samples(cohort, self.gradients - group.before)

    def _keep(self, cohort: Cohort) -> Bool[np.ndarray, "S"]:
        """Of those that report in time, the first ones; equal times go to the lower client."""
        clients, t = np.array(cohort.client_ids), self.seconds(cohort)
        may_arrive = ~np.isin(clients, self.systems.dropped(self.round)) & ~np.isin(clients, list(self._out))
        may_arrive &= t <= self._deadline
        first = np.lexsort((clients, t))
        first = first[may_arrive[first]][: self._wanted(cohort)]
        is_kept = np.zeros(len(clients), bool)
        is_kept[first] = True
        return is_kept

    def _end(self, cohort: Cohort) -> float:
        """When the server stops waiting for this message."""
        t, wanted = self.seconds(cohort), self._wanted(cohort)
        is_kept = self._groups[-1].is_kept
        has_enough = wanted < cohort.size and is_kept.sum() == wanted
        return min(self._deadline, float((t[is_kept] if has_enough else t).max()))

    def _wanted(self, cohort: Cohort) -> int:
        return self.systems.kept(cohort.size, self.sampled, self.participation)

    @property
    def _sent(self) -> int:
        """The gradients at the last message."""
        return max(self._groups[-1].at, 0)

    def _wasted_bytes(self, group: _Group) -> float:
        up = sum(group.bytes_up[~group.is_kept].tolist())
        return up + group.messages * float(self.bytes_down[group.lost].sum())

    @property
    def _deadline(self) -> float:
        deadline = self.systems.options.deadline_s
        return inf if deadline is None else deadline

    def _samples(self, cohort: Cohort, gradients: int) -> Float[np.ndarray, "S"]:
        """r m_i: each participant's part of this many gradients."""
        planned = np.array(cohort.plan.samples, np.float64)
        return planned * (gradients / max(planned.sum(), 1.0))
