"""Synthetic: binary logistic regression with one parameter, R, for the heterogeneity of the clients.

Yu et al. The Effect of Personalization in FedProx. 2024. https://arxiv.org/abs/2410.08934, section 6.1, after Li et
al. Federated Optimization in Heterogeneous Networks. MLSys 2020. https://arxiv.org/abs/1812.06127

    w_k = w_0 + R u_k        w_0 ~ N(0, center^2 I),  u_k ~ N(0, I/d)
    x   ~ N(v_k 1, Sigma)    v_k ~ N(0, 1),  Sigma_jj = j^-1.2
    y   ~ Bernoulli(sigmoid(w_k^T x))

The paper centers w_k at 0; centered at w_0 the global model has something to learn for every R. For one seed, data sets
that differ only in R share w_0, u_k, v_k, all x and the uniform numbers behind the labels.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.registry import DATASETS, Options
from engine.datasets import Pool, Progress, check_generated_size, generated_bytes


class SyntheticOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("dim", "center", "labels")

    num_clients: int = Field(10, ge=1, le=1_000_000, title="Clients", description="Number of clients.")
    samples_per_client: int = Field(
        200, ge=2, le=1_000_000, title="Samples per client", description="Samples per client."
    )
    dim: int = Field(10, ge=1, le=1_000_000, title="d", description="Number of features.")
    R: float = Field(
        1.0,
        ge=0,
        le=3,
        title="R",
        description="Spread of the clients' true models around their center; with 0 all clients are equal.",
    )
    center: float = Field(1.0, ge=0, le=1e6, title="Center", description="Standard deviation of the common part w_0.")
    labels: Literal["sampled", "argmax"] = Field(
        "sampled",
        title="Labels",
        description="sampled: drawn from the model, so that the true models can be recovered; argmax: noise-free.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_generated_size(self.num_clients, self.samples_per_client, self.dim)
        return self


@DATASETS.register(
    "synthetic",
    title="Synthetic logistic regression",
    short="Synthetic",
    paper="Yu et al., The Effect of Personalization in FedProx, 2024, section 6.1",
)
@dataclass(frozen=True)
class Synthetic:
    options: SyntheticOptions
    needs_download: ClassVar[bool] = False

    def present(self, data_dir: Path) -> bool:
        return True

    def memory(self, data_dir: Path) -> int:
        return generated_bytes(self.options.num_clients * self.options.samples_per_client, self.options.dim)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        o = self.options
        w0 = o.center * rng.standard_normal(o.dim)
        weights = w0 + o.R * rng.standard_normal((o.num_clients, o.dim)) / np.sqrt(o.dim)  # [N, d]
        mean = rng.standard_normal((o.num_clients, 1, 1))  # v_k, the same for all features
        sigma = np.arange(1, o.dim + 1) ** -0.6  # square root of the variances j^-1.2
        x = mean + sigma * rng.standard_normal((o.num_clients, o.samples_per_client, o.dim))
        logits = (x * weights[:, None]).sum(axis=2)
        threshold = rng.random(logits.shape) if o.labels == "sampled" else 0.5
        with np.errstate(over="ignore"):  # 1 / (1 + inf) is 0
            y = 1 / (1 + np.exp(-logits)) > threshold
        return Pool(
            x.reshape(-1, o.dim),
            y.reshape(-1).astype(np.int64),
            num_classes=2,
            client=np.repeat(np.arange(o.num_clients), o.samples_per_client),
            class_names=("0", "1"),
            truth={"weights": weights, "center": w0},
            notes=_notes(o.labels),
        )


def _notes(labels: str) -> tuple[str, ...]:
    if labels == "sampled":
        return ()
    return (
        "labels drawn with labels=argmax are noise-free and therefore separable: the estimate diverges and statistical "
        "error is meaningless; use labels=sampled to measure it",
    )
