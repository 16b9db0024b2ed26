"""A channel that loses what some clients send."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.channel import Arrived
from engine.channel.plain_channel import PlainChannel
from engine.core.params import ClientParams, SharedParams, gather
from engine.federation.batches import Cohort
from engine.simulation.simulate import Simulation


@dataclass(frozen=True)
class Lossy(PlainChannel):
    lost: tuple[int, ...]  # clients

    def deliver(
        self,
        uploads: ClientParams,
        reference: ClientParams | None,
        cohort: Cohort,
        weights: Tensor,
        num_values: Tensor | None = None,
        *,
        is_change: bool = True,
        num_extra: int = 0,
    ) -> Arrived:
        kept = [row for row, client in enumerate(cohort.client_ids) if client not in self.lost]
        rows = torch.tensor(kept, dtype=torch.int64)
        return Arrived(gather(uploads, rows), rows, weights[rows] / weights[rows].sum())

    def combine(self, arrived: Arrived, reference: SharedParams | None, cohort: Cohort) -> SharedParams:
        return super().combine(arrived, reference, cohort) if arrived.size else reference

    def aggregate(
        self,
        uploads: ClientParams,
        reference: SharedParams | None,
        cohort: Cohort,
        weights: Tensor,
        out_of: int | None = None,
    ) -> SharedParams:
        return self.combine(self.deliver(uploads, {}, cohort, weights), reference, cohort)


def losing(run: Simulation, *clients: int) -> Simulation:
    """The same run, whose rounds lose the uploads of these clients."""
    run.task = replace(run.task, channel=Lossy(clients))
    return run
