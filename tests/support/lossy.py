"""A channel that loses what some clients send."""

from dataclasses import dataclass

import torch

from engine.channel import Arrived
from engine.channel.direct import Direct
from engine.core.params import ClientParams, gather
from engine.federation.batches import Cohort


@dataclass(frozen=True)
class Lossy(Direct):
    lost: tuple[int, ...]

    def deliver(
        self, uploads: ClientParams, reference: ClientParams, cohort: Cohort, weights: torch.Tensor, numbers=None
    ) -> Arrived:
        kept = [row for row, client in enumerate(cohort.numbers) if client not in self.lost]
        rows = torch.tensor(kept, dtype=torch.int64)
        return Arrived(gather(uploads, rows), rows, weights[rows] / weights[rows].sum())
