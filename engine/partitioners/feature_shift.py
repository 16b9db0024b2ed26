"""Feature shift: groups of clients have the same kind of samples, transformed (rotated, noisy, in other colors).

In the "feature shift" setting of GPFL (Zhang et al.) domains come with the data (``natural``); this creates groups
from any data, as IFCA does by quarter turns (Ghosh et al., NeurIPS 2020, https://arxiv.org/abs/2006.04088). Samples are
split as by ``iid``; client i is in group i mod G, g = 0 .. G-1, whose samples are shifted

    rotation   by strength * 360 g/G degrees                    strength 1 and G = 4: quarter turns, which are exact
    noise      Gaussian of deviation strength * g/(G-1)         in units of the features (pixels are in [0, 1])
    color     channels cyclically shifted by g mod C, then inverted for every second C groups; strength blends

Training, validation and test samples of a client are shifted equally; group 0 is not shifted. The groups are the true
contexts. A common test set is not shifted: it measures models on the original samples.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import NO_CHANNELS, Pool
from engine.partitioners import Partition, PartitionOptions, check_enough, share_evenly, split_clients
from engine.partitioners.shifts import Color, Levels, Noise, Rotation, Shift


class FeatureShiftOptions(PartitionOptions):
    kind: Literal["rotation", "noise", "colour"] = Field(
        "rotation", title="Shift", description="What differs between groups; rotation and colour need images."
    )
    num_groups: int = Field(
        4, ge=1, le=1_000_000, title="G", description="Number of groups of clients; the groups are the true contexts."
    )
    strength: float = Field(
        1.0,
        ge=0,
        le=1,
        title="Strength",
        description="Share of a full turn, deviation of the noisiest group, or share of the new colors; 0: no shift.",
    )

    @model_validator(mode="after")
    def _every_group_has_a_client(self) -> Self:
        if self.num_groups > self.num_clients:
            raise ValueError(f"num_groups={self.num_groups} exceeds num_clients={self.num_clients}; lower num_groups")
        return self


@PARTITIONERS.register(
    "feature_shift",
    title="Feature shift",
    paper='GPFL (Zhang et al., ICCV 2023), the "feature shift" setting; rotations: IFCA, NeurIPS 2020',
)
@dataclass(frozen=True)
class FeatureShift:
    options: FeatureShiftOptions

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        o = self.options
        check_enough(pool, o)
        group = np.arange(o.num_clients) % o.num_groups
        assigned = share_evenly(pool, np.arange(pool.y.size), o.num_clients, rng)
        partition = split_clients(assigned, pool, o, rng, contexts=group)
        shifts = self._shifts(pool, key=int(rng.integers(2**63)))
        return replace(partition, shifts=tuple(shifts[g] for g in group))

    def _shifts(self, pool: Pool, key: int) -> list[Shift]:
        """The transformation of each group."""
        o, levels = self.options, Levels.of(pool)
        if pool.x.dtype == np.int32:
            raise ImpossiblePartition(
                "the samples of this data set are token ids, which cannot be shifted; use representation: bag with "
                "kind: noise, or another partition, such as natural"
            )
        groups = range(o.num_groups)
        if o.kind == "noise":
            return [Noise(o.strength / pool.scale * g / max(o.num_groups - 1, 1), key, levels) for g in groups]
        if pool.x.ndim != 4:
            raise ImpossiblePartition(
                f"kind={o.kind} requires images, but samples of this data set have shape "
                f"{list(pool.x.shape[1:])}; use kind: noise, or a data set of images"
                + (f"; {NO_CHANNELS}" if pool.x.ndim == 3 else "")
            )
        if o.kind == "rotation":
            return [Rotation(360 * o.strength * g / o.num_groups, levels) for g in groups]
        return self._colors(pool, levels)

    def _colors(self, pool: Pool, levels: Levels) -> list[Shift]:
        o, channels = self.options, pool.x.shape[1]
        if o.num_groups > 2 * channels:
            raise ImpossiblePartition(
                f"num_groups={o.num_groups} exceeds the {2 * channels} color variants of images with {channels} "
                f"channel{'s' if channels > 1 else ''} (each also inverted); lower num_groups, or use kind: rotation"
            )
        if o.num_groups > channels and o.strength == 0.5:
            raise ImpossiblePartition(
                "strength=0.5 blends an image with its inverse to a uniform gray; use another strength"
            )
        return [Color(g % channels, g >= channels, o.strength, levels) for g in range(o.num_groups)]
