"""Privacy of samples in a run: rounds train with a private backend on Poisson batches, and releases are counted.

Outside of rounds nothing changes: what is trained for evaluation, or by a newcomer, never leaves its client. With
``covers: all`` methods that make models for evaluation are refused, since these would not be private.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from engine.algorithms import Algorithm
from engine.backends import Affine, Extras, Objective, scale_out
from engine.backends.private import Private
from engine.backends.wrapped import Wrapped
from engine.config.schema import RunConfig
from engine.core.client_rows import RowMemory
from engine.core.params import ClientParams
from engine.federation.batches import Batch
from engine.privacy.samples import ReleaseCounts, Releases, SampleLevel, sample_level
from engine.task import Shared, Task


def mechanism(config: RunConfig, algorithm: Algorithm, shared: Shared, task: Task) -> SampleLevel | None:
    """The mechanism that protects samples, with the noise for ``epsilon``; None without one. Raises Unsupported."""
    privacy = config.privacy
    if privacy is None or privacy.unit != "sample":
        return None
    made = sample_level(privacy, config.seed, task.data.train.sizes.cpu().numpy(), int(config.training.batch_size))
    if not is_needed(made, shared):
        task.note(
            f"{config.algorithm.name}: nothing is sent, so samples are private anyway; privacy has no effect "
            "(covers: all also protects what stays)"
        )
        return made
    return made if privacy.epsilon is None else made.calibrated(planned(algorithm, task, made))


def is_needed(level: SampleLevel, shared: Shared) -> bool:
    """Whether anything is trained that privacy covers."""
    return level.options.covers == "all" or any(shared.up)


def protected(task: Task, level: SampleLevel, releases: Releases) -> Task:
    """The task of a round, whose gradients are private and counted in ``releases``."""
    unprotected = task.backend if level.options.covers == "sent" else None
    backend = Private(task.backend, task.model, level.clip, releases)
    return replace(task, backend=backend, unprotected_backend=unprotected, draws_samples=True)


@dataclass(frozen=True)
class _Rehearsed(Wrapped):
    """Counts releases and computes no gradient."""

    releases: Releases | None

    def accumulate(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        alpha: float,
        beta: float | Affine,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> Float[Tensor, "A"]:
        sampling = batch.sampling
        if self.releases is not None and sampling is not None:
            self.releases.count(sampling.client_ids, sampling.stream, sampling.round, sampling.step)
        scale_out(out, params, alpha, beta, {})
        return next(iter(params.values())).new_zeros(batch.size)


def planned(algorithm: Algorithm, task: Task, level: SampleLevel) -> ReleaseCounts:
    """The releases of the whole run, by a rehearsal of all rounds without gradients.

    Who takes part and how many steps a method takes does not depend on the models, with the exception of methods that
    stop when something has converged; their true releases are counted as they happen.
    """
    task = replace(task, memory=RowMemory(), notes=[], draws_samples=True)
    state, counts = algorithm.init(task), ReleaseCounts.zero(task.num_clients)
    for round in range(1, task.training.rounds + 1):
        releases = level.open(round)
        unprotected = None if level.options.covers == "all" else _Rehearsed(task.backend, None)
        rehearsal = replace(task, backend=_Rehearsed(task.backend, releases), unprotected_backend=unprotected)
        with torch.no_grad():
            state, _ = algorithm.round(state, rehearsal.cohort(round), rehearsal)
        counts = releases.after(counts)
    return counts
