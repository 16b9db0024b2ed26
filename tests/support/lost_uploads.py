"""A channel on which the uploads of some places of the cohort are lost."""

from dataclasses import dataclass, replace

import torch

from engine.channel import Arrived
from engine.channel.direct import Direct
from engine.core.params import ClientParams, SharedParams, gather
from engine.simulation.simulate import Simulation


@dataclass(frozen=True)
class Lossy(Direct):
    lost: tuple[int, ...] = ()

    def deliver(self, uploads: ClientParams, reference: ClientParams, cohort, weights, numbers=None) -> Arrived:
        rows = torch.tensor([place for place in range(cohort.size) if place not in self.lost], dtype=torch.int64)
        return Arrived(gather(uploads, rows), rows, weights[rows] / weights[rows].sum())

    def aggregate(self, uploads: ClientParams, reference: SharedParams, cohort, weights, out_of=None) -> SharedParams:
        arrived = self.deliver(uploads, reference, cohort, weights)
        return self.combine(arrived, reference, cohort) if arrived.size else reference


def losing(run: Simulation, *places: int) -> Simulation:
    """The same run, whose rounds lose the uploads of these places."""
    run.task = replace(run.task, channel=Lossy(places))
    return run
