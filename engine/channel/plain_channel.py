"""The channel with all dials off: every upload arrives as it was sent, and the server takes the weighted mean."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from engine.channel import Arrived, Channel
from engine.core.params import ClientParams, SharedParams, weighted_mean
from engine.federation.batches import Cohort


@dataclass(frozen=True)
class PlainChannel(Channel):
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
        return Arrived(uploads, torch.arange(cohort.size, device=cohort.clients.device), weights)

    def combine(self, arrived: Arrived, reference: SharedParams | None, cohort: Cohort) -> SharedParams:
        return weighted_mean(arrived.params, arrived.weights)

    def combine_inside(
        self,
        arrived: Arrived,
        models: ClientParams,
        labels: Int[Tensor, "A"],
        cohort: Cohort,
        only: Collection[int] | None = None,
    ) -> ClientParams:
        return mean_inside(models, arrived.params, labels, arrived.weights)

    def aggregate(
        self,
        uploads: ClientParams,
        reference: SharedParams | None,
        cohort: Cohort,
        weights: Float[Tensor, "S"],
        out_of: int | None = None,
    ) -> SharedParams:
        return weighted_mean(uploads, weights if out_of is None else weights * (cohort.size / out_of))

    def peek(self, known: SharedParams, uploads: ClientParams, weights: Float[Tensor, "S"]) -> SharedParams:
        return weighted_mean(uploads, weights)


def mean_inside(
    models: ClientParams, copies: ClientParams, labels: Int[Tensor, "A"], weights: Float[Tensor, "A"]
) -> ClientParams:
    """omega_k <- sum_i m_i / m_k w_i over the uploads i of cluster k; a cluster without uploads keeps its model."""
    count = len(next(iter(models.values())))
    members = F.one_hot(labels, count).T * weights  # [K, A]
    total = members.sum(1)
    share = members / total.where(total > 0, 1)[:, None]

    def mean(old: Tensor, new: Tensor) -> Tensor:
        has_members = (total > 0).view(-1, *[1] * (old.dim() - 1))
        return torch.tensordot(share.to(new.dtype), new, dims=1).where(has_members, old)

    return {n: mean(p, copies[n]) for n, p in models.items()}
