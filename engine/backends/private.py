"""Any backend with private gradients: each sample's is clipped to C, and noise is added to their sum (DP-SGD).

g <- ( sum_j g_j min(1, C / ||g_j||) + N(0, (z C)^2 I) ) / B, with ||g_j|| over all tensors that ``out`` trains and
B the expected size of a batch (Abadi et al., CCS 2016, Algorithm 1). The L2 term, pulls, drifts, weight decay and
momentum come after: they do not read samples. Every call is a release, inner steps and empty batches included.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import Affine, Extras, Objective, OnFeatures, scale_out
from engine.backends.batched import live_chunk
from engine.backends.wrapped import Wrapped
from engine.core.devices import sent
from engine.core.errors import Unsupported
from engine.core.params import ClientParams, flatten, unflatten
from engine.federation.batches import Batch
from engine.models import Model
from engine.privacy.samples import Releases


@dataclass(frozen=True)
class Private(Wrapped):
    model: Model
    clip: float
    releases: Releases

    def undo_counts(self) -> Callable[[], None]:
        of_releases, of_inner = self.releases.undo_counts(), self.inner.undo_counts()

        def undo() -> None:
            of_releases()
            of_inner()

        return undo

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device, extra_bytes: int = 0) -> int:
        of_inner = self.inner.chunk_size(model, batch_bytes, device, extra_bytes)
        return min(of_inner, live_chunk(model, batch_bytes, device, extra_bytes))

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
        if batch.rows is None:  # public samples
            return self.inner.accumulate(out, params, batch, alpha, beta, objective, extras)
        if sampling is None:
            raise Unsupported("privacy: unit: sample requires batches of the task; use Task.cohort_of or Task.plan")
        l2_of = dict(self.model.l2_of)
        if isinstance(objective, OnFeatures):
            l2_of, objective = objective.l2_with(l2_of), replace(objective, l2={})
        found = self.inner.clipped_sum(tuple(out), params, batch, self.clip, objective, extras)
        signal = flatten(found.gradient)
        release_ids = self.releases.count(sampling.client_ids, sampling.stream, sampling.round, sampling.step)
        z = torch.from_numpy(self.releases.noise[list(sampling.client_ids)]).to(signal)
        scale = z * self.clip / sent(sampling.expected, signal.device, signal.dtype)
        noise = self.releases.draw(release_ids, signal.shape[1], signal).mul_(scale[:, None])
        is_sample = (
            torch.arange(found.norms.shape[1], device=signal.device) < sent(batch.counts, signal.device)[:, None]
        )
        self.releases.record(
            samples=is_sample,
            clipped=is_sample & (found.norms > self.clip),
            noise_norm=torch.linalg.vector_norm(noise, dim=1),
            signal_norm=torch.linalg.vector_norm(signal, dim=1),
        )
        scale_out(out, params, alpha, beta, l2_of)
        for name, gradient in unflatten(signal.add_(noise), {n: p[0] for n, p in out.items()}).items():
            out[name].add_(gradient, alpha=alpha)
        return found.losses

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        raise Unsupported("privacy: unit: sample has no second derivatives; choose a method without them")
