"""Public samples in a round: predictions of all participants on them, and training toward given predictions.

Every participant takes the same samples of a round in the same batches. None of them is augmented.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.backends import OnFeatures
from engine.core.devices import sent
from engine.core.errors import Unsupported
from engine.core.params import ClientParams
from engine.core.streams import numpy_stream
from engine.federation.batches import Batch, Cohort, Plan
from engine.federation.clients import ClientData, PublicData
from engine.task import Task
from engine.training.local import Live, Trained, for_each_client, local_sgd

SCORED = 256  # samples of a forward pass


@dataclass(frozen=True, kw_only=True)
class PublicPlan(Plan):
    """Batches of public samples, the same for all clients; their labels are places in the alignment set."""

    data: PublicData
    order: Int[Tensor, "n"]

    def batches(self, data: ClientData) -> Iterator[Batch]:
        """Yields one batch per step, as views; the clients' own ``data`` are not read."""
        for step in range(self.num_steps):
            live, count = self.live(step), self.counts[step][0]
            places = self.rows[0, step, :count]
            x = self.data.features(self.order[places])
            yield Batch(x.expand(live, *x.shape), places.expand(live, count), None, (count,) * live)


@dataclass(frozen=True)
class AlignmentSet:
    """The public samples of a round, in the order in which everyone takes them."""

    data: PublicData
    order: Int[Tensor, "n"]

    @classmethod
    def of(cls, task: Task, round: int, size: int) -> "AlignmentSet":
        """The first ``size`` samples of the round's permutation, or all if there are fewer."""
        assert task.data.public is not None  # by ``require_public``
        order = numpy_stream(task.seed, "public", round).permutation(task.data.public.num_samples)[:size]
        return cls(task.data.public, sent(order.tolist(), task.device))

    def plan(self, num_clients: int, steps: int | None, batch_size: int | str) -> PublicPlan:
        """``steps`` batches, beginning again after the last one; None: each sample once."""
        n = len(self.order)
        size = n if isinstance(batch_size, str) else min(batch_size, n)
        per_pass = -(-n // size)
        which = [step % per_pass for step in range(per_pass if steps is None else steps)]
        places = torch.arange(per_pass * size, device=self.order.device).view(per_pass, size)
        rows = torch.stack([places[batch] for batch in which]).expand(num_clients, -1, -1)
        counts = tuple((min(size, n - batch * size),) * num_clients for batch in which)
        steps_of = (len(which),) * num_clients
        return PublicPlan(rows, counts, steps_of, False, data=self.data, order=self.order)


def require_public(task: Task, method: str) -> PublicData:
    """The public samples. Raises Unsupported for a federation without any."""
    if task.data.public is None:
        raise Unsupported(
            f"{method} needs public samples: set partition.public_fraction, for instance 0.1 (10 % of the samples)"
        )
    return task.data.public


def logits_on(task: Task, models: ClientParams, alignment: AlignmentSet) -> Float[Tensor, "S n C"]:
    """The logits of each model on the alignment set."""
    size = len(next(iter(models.values())))
    start = torch.zeros(size, len(alignment.order), task.data.num_classes, dtype=task.dtype, device=task.device)

    def step(c: Live, batch: Batch) -> Tensor:
        c.logits.index_copy_(1, batch.y[0], task.backend.logits(task.model, c.models, batch.x))
        return c.logits.new_zeros(c.size)

    plan, fixed = alignment.plan(size, None, SCORED), {"models": models}
    logits: Tensor = for_each_client(task, plan, {"logits": start}, step, fixed=fixed).logits
    return logits


def taught(
    task: Task,
    start: ClientParams,
    cohort: Cohort,
    alignment: AlignmentSet,
    steps: int,
    objective: OnFeatures,
    targets: Float[Tensor, "A n C"],
) -> Trained:
    """``steps`` of SGD on the alignment set, on an ``objective`` that finds its ``targets`` by the batch's labels.

    ``start`` may have fewer rows than the cohort.
    """
    if steps == 0:
        return Trained(start, torch.zeros(len(targets), dtype=task.dtype, device=task.device), 0)
    plan = alignment.plan(len(targets), steps, task.training.batch_size)
    return local_sgd(task, start, cohort, plan=plan, objective=objective, extras={"targets": targets})


def public_bytes(task: Task, round: int) -> dict[str, float | Tensor]:
    """The diagnostic of round 1: the size of the public samples, which everyone has before it."""
    assert task.data.public is not None
    return {"public_bytes": float(task.data.public.nbytes)} if round == 1 else {}
