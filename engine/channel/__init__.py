"""The channel between clients and server: a method passes its uploads and gets back the server's aggregate.

Attacks, compression, lost uploads, clipping, robust aggregation and noise all act here, and methods need not know of
them. A method passes its uploads and a ``reference`` from which they are measured: Delta_i = upload_i - reference_i.
``None`` is a reference of 0, for uploads that are changes already, or if clients received nothing to measure from.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from jaxtyping import Float, Int
from torch import Tensor

from engine.core.params import ClientParams, SharedParams, gather
from engine.federation.batches import Cohort

KEPT_BY_CLIENT = "clients keep what they send, so their next uploads contain what was left out"
"""Why a method has no feedback; see ``engine.algorithms.no_feedback``."""


@dataclass(frozen=True)
class Arrived:
    """The uploads that the server holds after an exchange."""

    params: ClientParams  # [A, ...]
    rows: Int[Tensor, "A"]  # their places in the cohort, ascending
    weights: Float[Tensor, "A"]  # of the method, summing to 1

    @property
    def size(self) -> int:
        return len(self.rows)

    def part(self, places: Int[Tensor, "B"], weights: Float[Tensor, "B"]) -> "Arrived":
        """Some of them, by their places among those that arrived, with other weights."""
        return Arrived(gather(self.params, places), self.rows[places], weights)


class Channel(Protocol):
    """What happens to uploads on their way into the next model."""

    def deliver(
        self,
        uploads: ClientParams,
        reference: ClientParams | None,
        cohort: Cohort,
        weights: Float[Tensor, "S"],
        num_values: Int[Tensor, "S"] | None = None,
        *,
        is_change: bool = True,
        num_extra: int = 0,
    ) -> Arrived:
        """One exchange, client by client: [S, ...] -> what arrives of it.

        ``num_values``: how many values each participant sends, if not all. ``is_change``: what a compressor leaves out
        may be added to the next upload; see ``engine.algorithms.no_feedback``. ``num_extra``: how many other values
        each participant sends, which arrive as they are. If nothing arrives, the caller keeps its state.
        """

    def combine(self, arrived: Arrived, reference: SharedParams | None, cohort: Cohort) -> SharedParams:
        """The aggregate of uploads that were delivered: reference + rule(Delta). With no uploads, the reference."""

    def combine_inside(
        self,
        arrived: Arrived,
        models: ClientParams,
        labels: Int[Tensor, "A"],
        cohort: Cohort,
        only: Collection[int] | None = None,
    ) -> ClientParams:
        """``combine`` inside each cluster, with its model of [K, ...] as the reference. ``labels``: the clusters.

        ``only``: the clusters to combine, where the models of the others already are those of these uploads.
        """

    def aggregate(
        self,
        uploads: ClientParams,
        reference: SharedParams | None,
        cohort: Cohort,
        weights: Float[Tensor, "S"],
        out_of: int | None = None,
    ) -> SharedParams:
        """``deliver``, then ``combine`` all that arrived. With no uploads, ``reference`` itself.

        ``out_of``: scales the aggregate by A / out_of for A uploads; for uploads that are changes.
        """

    def computed_by(self, cohort: Cohort) -> None:
        """Says that what was computed since the last exchange was computed by these clients, if nothing is sent now."""

    def peek(self, known: SharedParams, uploads: ClientParams, weights: Float[Tensor, "S"]) -> SharedParams:
        """The clients' current mean, for which nothing is sent; ``known`` is the aggregate of the last exchange.

        Where a dial is on, the server has nothing but ``known``.
        """
