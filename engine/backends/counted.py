"""A backend that reports how many gradients it computes: one for each sample and pass, two for a Hessian product."""

from collections.abc import Callable
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from engine.backends import Affine, Extras, Objective
from engine.backends.wrapped import Wrapped
from engine.core.params import ClientParams
from engine.federation.batches import Batch


@dataclass(frozen=True)
class Counted(Wrapped):
    count: Callable[[int], None]  # is called with the number of new gradients; a negative one takes some back
    total: list[int] = field(default_factory=lambda: [0])  # gradients so far; a list, since the class is frozen

    def undo_counts(self) -> Callable[[], None]:
        before, of_inner = self.total[0], self.inner.undo_counts()

        def undo() -> None:
            of_inner()
            self._add(before - self.total[0])

        return undo

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
        self._add(sum(batch.counts))
        return self.inner.accumulate(out, params, batch, alpha, beta, objective, extras)

    def proximal_steps(
        self, theta: ClientParams, anchor: ClientParams, batch: Batch, lr: float, lam: float, steps: int
    ) -> Float[Tensor, "A"]:
        self._add(steps * sum(batch.counts))
        return self.inner.proximal_steps(theta, anchor, batch, lr, lam, steps)

    def hessian_vector(
        self,
        params: ClientParams,
        vector: ClientParams,
        batch: Batch,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> ClientParams:
        self._add(2 * sum(batch.counts))
        return self.inner.hessian_vector(params, vector, batch, objective, extras)

    def _add(self, gradients: int) -> None:
        self.total[0] += gradients
        self.count(gradients)
