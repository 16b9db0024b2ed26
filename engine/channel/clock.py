"""The simulated clock of a round: when uploads arrive, which of them the server uses, and how long the round takes.

    t_i = bytes_down / down_i + r m_i c_i + bytes_up_i / up_i

m_i samples of client i's batches, c_i its seconds for the gradient of a sample, r the gradients that the backend has
counted so far over those of the batches: 1 for FedAvg, 2 for Ditto. An upload is late if t_i exceeds the deadline, or
if enough others report first; a client that drops out never reports. All of them have trained.

A round lasts until the last upload that is kept, or else min(deadline, max t_i); the server notices a lost connection,
so that without a deadline a client that dropped out costs the time at which its upload was due. What a method sends
without training in between is one message: who arrives is decided with its first part, and downloads are counted once.
A client whose upload was left out stays out for the rest of the round.
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
class Clock:
    """One round. ``count`` is given the gradients of the backend, ``arrives`` each exchange, ``finish`` ends it."""

    systems: Systems
    round: int
    participation: float
    sampled: int  # clients, over-selected ones included
    bytes_down: Int[np.ndarray, "N"]  # of each client, for one message
    gradients: int = 0
    messages: int = 0
    _at: int = -1  # gradients at the last message
    _ends: float = 0.0  # of the last message
    _cohort: tuple[int, ...] = ()  # that of the last message
    _is_kept: Bool[np.ndarray, "S"] = field(default_factory=lambda: np.zeros(0, bool))
    _out: set[int] = field(default_factory=set)
    _bytes_up: dict[int, float] = field(default_factory=dict)

    def count(self, gradients: int) -> None:
        self.gradients += gradients

    def arrives(self, cohort: Cohort, bytes_up: Float[np.ndarray, "S"]) -> Bool[np.ndarray, "S"]:
        """Whose upload of these bytes the server uses."""
        for client, sent in zip(cohort.numbers, bytes_up.tolist(), strict=True):
            self._bytes_up[client] = self._bytes_up.get(client, 0.0) + sent
        is_same_message = self._at == self.gradients and self._cohort == cohort.numbers
        if not is_same_message:
            self.messages += 1
            self._at, self._cohort = self.gradients, cohort.numbers
            self._is_kept = self._keep(cohort)
            self._out.update(np.array(cohort.numbers)[~self._is_kept].tolist())
        self._ends = self._end(cohort)
        return self._is_kept

    def finish(self, reported: int) -> None:
        """The round is over. What the backend computed beyond the method's own count measured it and takes no time."""
        self.gradients = max(self._at, min(self.gradients, reported))

    def seconds(self, cohort: Cohort) -> Float[np.ndarray, "S"]:
        """t_i of the participants, after what they have computed and sent so far."""
        clients = np.array(cohort.numbers)
        up = np.array([self._bytes_up.get(client, 0.0) for client in cohort.numbers])
        down = self.messages * self.bytes_down[clients].astype(float)
        compute = self.systems.compute_s(clients, self._samples(cohort, self.gradients))
        return compute + self.systems.send_s(clients, down, up)

    def duration(self, cohort: Cohort) -> float:
        """The seconds of the round, ``cohort`` being the one that trained. Training after the last message counts."""
        since = self.gradients - self._at if self.messages else self.gradients
        rest = self.systems.compute_s(np.array(cohort.numbers), self._samples(cohort, since))
        return self._ends + float(rest.max(initial=0.0))

    def values(self, cohort: Cohort) -> dict[str, float | Tensor]:
        """What the round records, by the last message."""
        clients = np.array(self._cohort, np.int64)
        arrived = torch.zeros(self.systems.num_clients)
        arrived[torch.from_numpy(clients[self._is_kept])] = 1.0
        lost = clients[~self._is_kept]
        dropped = int(np.isin(lost, self.systems.dropped(self.round)).sum())
        sent = sum(self._bytes_up[client] for client in lost.tolist())
        is_lost = np.isin(np.array(cohort.numbers), lost)
        return {
            "arrived": arrived,
            "late": float(len(lost) - dropped),
            "dropped": float(dropped),
            "wasted_gradients": float(self._samples(cohort, self.gradients)[is_lost].sum()),
            "wasted_bytes": float(sent + self.messages * self.bytes_down[lost].sum()),
        }

    def _keep(self, cohort: Cohort) -> Bool[np.ndarray, "S"]:
        """Of those that report in time, the first ones; equal times go to the lower client."""
        clients, t = np.array(cohort.numbers), self.seconds(cohort)
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
        has_enough = wanted < cohort.size and self._is_kept.sum() == wanted
        return min(self._deadline, float((t[self._is_kept] if has_enough else t).max()))

    def _wanted(self, cohort: Cohort) -> int:
        return self.systems.kept(cohort.size, self.sampled, self.participation)

    @property
    def _deadline(self) -> float:
        deadline = self.systems.options.deadline_s
        return inf if deadline is None else deadline

    def _samples(self, cohort: Cohort, gradients: int) -> Float[np.ndarray, "S"]:
        """r m_i: each participant's part of this many gradients."""
        planned = np.array(cohort.plan.samples, np.float64)
        return planned * (gradients / max(planned.sum(), 1.0))
