"""Contexts: G groups of clients; the clients of a group share one class distribution.

Designed for the clustered methods (CGPFL, Tang et al.): the groups are the true contexts. Client i is in
context i mod G. A context has ``classes_per_context`` classes, evenly spaced around the class circle so that no two
contexts are equal, or, with ``alpha``, shares of all classes drawn from Dir(alpha). Classes in no context are not used.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import (
    Partition,
    PartitionOptions,
    check_enough,
    share_evenly,
    share_out,
    shuffled_classes,
    smallest_client,
    split_clients,
)

MAX_DRAWS = 100
NAMED = 10  # classes in a note


class ContextsOptions(PartitionOptions):
    num_contexts: int = Field(4, ge=1, le=1_000_000, title="G", description="Number of true contexts.")
    classes_per_context: int | None = Field(
        3,
        ge=1,
        le=1_000_000,
        title="Classes per context",
        description="Number of classes per context; alternatively, set alpha.",
    )
    alpha: float | None = Field(
        None, gt=0, le=1e6, title="α", description="Draws the class shares of the contexts from Dir(alpha) instead."
    )

    @model_validator(mode="before")
    @classmethod
    def _alpha_replaces_the_default(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("alpha") is not None and "classes_per_context" not in given:
            return {**given, "classes_per_context": None}
        return given

    def in_words(self) -> str:
        return f"{self.num_contexts} {'context' if self.num_contexts == 1 else 'contexts'}"

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.classes_per_context is None) == (self.alpha is None):
            raise ValueError(
                f"classes_per_context={self.classes_per_context} and alpha={self.alpha}: exactly one of "
                "them must be set, the other null"
            )
        if self.num_contexts > self.num_clients:
            raise ValueError(
                f"num_contexts={self.num_contexts} exceeds num_clients={self.num_clients}; lower num_contexts"
            )
        return self


@PARTITIONERS.register(
    "contexts",
    title="True contexts",
    short="Contexts",
    paper="Generated; shows whether CGPFL (Tang et al., IJCAI 2022) recovers the contexts",
)
@dataclass(frozen=True)
class Contexts:
    options: ContextsOptions

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        """With ``alpha``, the draw is repeated while a client has too few samples, up to MAX_DRAWS times."""
        o = self.options
        check_enough(pool, o)
        contexts = np.arange(o.num_clients) % o.num_contexts
        for _ in range(1 if o.alpha is None else MAX_DRAWS):
            by_class, shares = shuffled_classes(pool, rng), self._shares(pool.num_classes, rng)
            by_context = share_out(by_class, shares)
            assigned = self._within_contexts(by_context, pool, rng)
            client, size = smallest_client(assigned, pool)
            if size >= o.min_samples:
                return split_clients(assigned, pool, o, rng, contexts=contexts, notes=self._notes(pool, shares))
        raise ImpossiblePartition(
            f"client {client} in context {contexts[client]} has {size} training samples, min_samples={o.min_samples}; "
            f"raise {'classes_per_context' if o.alpha is None else 'alpha'}, or lower num_clients or num_contexts"
        )

    def _notes(self, pool: Pool, shares: np.ndarray) -> tuple[str, ...]:
        requested = self.options.classes_per_context
        if requested is not None and requested > pool.num_classes:
            return (f"classes_per_context={requested}: the data set has {pool.num_classes} classes, and all are used",)
        samples = np.bincount(pool.y, minlength=pool.num_classes)
        unused = np.flatnonzero((shares.sum(axis=1) == 0) & (samples > 0))
        if not unused.size:
            return ()
        names = [pool.class_names[c] if pool.class_names else str(c) for c in unused[:NAMED]]
        names += [f"{unused.size - NAMED} more"] if unused.size > NAMED else []
        return (
            f"classes in no context, whose {samples[unused].sum():,} of {pool.y.size:,} samples are not used: "
            f"{', '.join(names)}; raise num_contexts or classes_per_context to use them",
        )

    def _shares(self, num_classes: int, rng: np.random.Generator) -> np.ndarray:
        """[C, G] the share of each class for each context; a class in no context is not used."""
        o = self.options
        if o.alpha is not None:
            return rng.dirichlet(np.full(o.num_contexts, o.alpha), size=num_classes)
        assert o.classes_per_context is not None  # exactly one of them is set
        if o.num_contexts > 1 and (o.classes_per_context >= num_classes or o.num_contexts > num_classes):
            raise ImpossiblePartition(
                f"classes_per_context={o.classes_per_context} and num_contexts={o.num_contexts} cannot give "
                f"distinct contexts with {num_classes} classes; keep classes_per_context below {num_classes} and "
                f"num_contexts at {num_classes} or less, or use alpha"
            )
        holds = np.zeros((num_classes, o.num_contexts))
        for context in range(o.num_contexts):
            first = context * num_classes // o.num_contexts
            holds[(first + np.arange(min(o.classes_per_context, num_classes))) % num_classes, context] = 1
        return holds / np.maximum(holds.sum(axis=1, keepdims=True), 1)

    def _within_contexts(self, by_context: list[np.ndarray], pool: Pool, rng: np.random.Generator) -> list[np.ndarray]:
        """Gives client i an equal random part of the samples of context i mod G."""
        assigned: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * self.options.num_clients
        for context, owned in enumerate(by_context):
            members = range(context, self.options.num_clients, self.options.num_contexts)
            for client, part in zip(members, share_evenly(pool, owned, len(members), rng), strict=True):
                assigned[client] = part
        return assigned
