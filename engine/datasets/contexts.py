"""Contexts: synthetic clients in G true contexts, to check whether clusters are recovered.

Designed for clustered methods. All contexts draw from the same mixture of Gaussians, one per class, but
transform it differently:

    x = Q_g (mean_c + noise * z)     z ~ N(0, I),  mean_c ~ N(0, I)
    y = c + g mod C                  shifted labels: a sample has a different label in each context

Q_g rotates features 1 and 2, 3 and 4, ... by g/G of a full turn. Client i is in context i mod G.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.registry import DATASETS, Options
from engine.datasets import Pool, Progress, check_generated_size, generated_bytes


class ContextsOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("num_classes", "dim")

    num_clients: int = Field(20, ge=1, le=1_000_000, title="Clients", description="Number of clients.")
    samples_per_client: int = Field(
        200, ge=2, le=1_000_000, title="Samples per client", description="Samples per client."
    )
    num_contexts: int = Field(4, ge=1, le=1_000_000, title="G", description="Number of true contexts.")
    num_classes: int = Field(10, ge=2, le=1000, title="C", description="Number of classes.")
    dim: int = Field(20, ge=2, le=100_000, title="d", description="Number of features.")
    noise: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="Noise",
        description="Standard deviation of the samples around their class mean.",
    )
    shift: Literal["labels", "rotation", "both"] = Field(
        "labels", title="Shift", description="What differs between contexts: the labels, the features, or both."
    )

    @model_validator(mode="after")
    def _contexts_can_differ(self) -> Self:
        if self.num_contexts > self.num_clients:
            raise ValueError(
                f"num_contexts={self.num_contexts} exceeds num_clients={self.num_clients}; lower num_contexts"
            )
        if self.shift == "labels" and self.num_contexts > self.num_classes:
            raise ValueError(
                f"num_contexts={self.num_contexts} exceeds num_classes={self.num_classes}, the "
                "number of possible label shifts; lower num_contexts, or use shift=rotation"
            )
        check_generated_size(self.num_clients, self.samples_per_client, self.dim)
        return self


@DATASETS.register(
    "contexts",
    title="Clients in true contexts",
    short="Contexts",
    paper="Generated; shows whether CGPFL (Tang et al., IJCAI 2022) recovers the contexts",
)
@dataclass(frozen=True)
class Contexts:
    options: ContextsOptions
    needs_download: ClassVar[bool] = False

    def present(self, data_dir: Path) -> bool:
        return True

    def memory(self, data_dir: Path) -> int:
        o = self.options
        return generated_bytes(o.num_clients * o.samples_per_client, o.dim, copies=2 if o.shift == "labels" else 3)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        o = self.options
        context = np.arange(o.num_clients) % o.num_contexts  # [N]
        client = np.repeat(np.arange(o.num_clients), o.samples_per_client)  # [M]
        means = rng.standard_normal((o.num_classes, o.dim))
        y = rng.integers(o.num_classes, size=client.size)
        x = means[y] + o.noise * rng.standard_normal((client.size, o.dim))
        if o.shift != "labels":
            x = rotate(x, 2 * np.pi * context[client] / o.num_contexts)
        if o.shift != "rotation":
            y = (y + context[client]) % o.num_classes
        names = tuple(str(c) for c in range(o.num_classes))
        return Pool(x, y.astype(np.int64), o.num_classes, client=client, contexts=context, class_names=names)


def rotate(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Rotates the planes of features (0, 1), (2, 3), ... by the angle of each sample; an odd last one is unchanged."""
    out = x.copy()
    pairs = x.shape[1] // 2 * 2
    even, odd = x[:, 0:pairs:2], x[:, 1:pairs:2]
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    out[:, 0:pairs:2] = cos * even - sin * odd
    out[:, 1:pairs:2] = sin * even + cos * odd
    return out
