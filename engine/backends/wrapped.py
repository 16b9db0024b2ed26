"""A backend around another one, which it asks for everything that it does not change itself."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import Backend, ClippedSum, Extras, Objective
from engine.core.params import ClientParams, SharedParams
from engine.federation.batches import Batch
from engine.models import Model


@dataclass(frozen=True)
class Wrapped(Backend):
    """Proximal steps go through ``accumulate`` of the wrapper."""

    inner: Backend

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def unclipped(self) -> Backend:
        return replace(self, inner=self.inner.unclipped)

    def undo_counts(self) -> Callable[[], None]:
        return self.inner.undo_counts()

    def chunk_size(self, model: Model, batch_bytes: int, device: torch.device, extra_bytes: int = 0) -> int:
        return self.inner.chunk_size(model, batch_bytes, device, extra_bytes)

    def clipped_sum(
        self,
        trained: Collection[str],
        params: ClientParams,
        batch: Batch,
        clip: float,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClippedSum:
        return self.inner.clipped_sum(trained, params, batch, clip, objective, extras)

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        return self.inner.hessian_vector(params, vector, batch, objective, extras)

    def logits(self, model: Model, params: ClientParams, x: Tensor) -> Float[Tensor, "A B C"]:
        return self.inner.logits(model, params, x)

    def features(self, params: ClientParams, x: Tensor) -> Float[Tensor, "A B F"]:
        return self.inner.features(params, x)

    def outputs(self, forward: Callable[[SharedParams, Tensor], Tensor], params: ClientParams, x: Tensor) -> Tensor:
        return self.inner.outputs(forward, params, x)
