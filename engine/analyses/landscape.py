"""Loss landscapes of the global model and of a client's personalized model, in the same two random directions.

Li, Xu, Taylor, Studer, Goldstein. Visualizing the Loss Landscape of Neural Nets. NeurIPS 2018. https://arxiv.org/abs/1712.09913.
PLGU (Qu et al., CVPR 2023), figure 7, compares models like this.

    L(a, b) = loss of theta + a u + b v         u, v Gaussian, each filter scaled to the norm of theta's

Both models get the same Gaussian u and v, each scaled to its own filters; biases, normalizations and parts added by a
method (conditions, prototypes) stay fixed. Surfaces are computed on the client's own samples and on everyone's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field

from engine.analyses.support.directions import filter_normalized, gaussian
from engine.analyses.support.layouts import Count, Layout, Values
from engine.analyses.support.loaded_run import Subject
from engine.analyses.support.probes import DataName, On, OnSamples, Placed, place
from engine.analyses.support.surface import Plane, surface
from engine.core.findings import Findings
from engine.core.json_values import finite
from engine.core.registry import ANALYSES


class Options(OnSamples):
    points: int = Field(
        41, ge=3, le=101, title="Points", description="Grid points per direction; odd, to include the center."
    )
    extent: float = Field(
        1.0,
        gt=0,
        le=10,
        title="Extent",
        description="Length of the axes from the center; 1 is the norm of the filters.",
    )
    seed: int = Field(0, ge=0, le=1_000_000, title="Directions", description="Seed of the random directions.")


class LandscapeValues(Values):
    round: Count
    data: DataName
    samples: dict[On, Count]


@ANALYSES.register("landscape", title="Loss landscape", paper="Li et al., NeurIPS 2018")
@dataclass(frozen=True)
class Landscape:
    options: Options

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        return Layout(
            {"axis": "A", "personalized_own": "A A", "personalized_everyone": "A A"},
            {"global_own": "A A", "global_everyone": "A A"},
            values=LandscapeValues,
            missing=_not_counted,
        )

    def compute(self, subject: Subject) -> Findings:
        """``axis`` [A], and a surface [A, A] (rows: along v) per model and data set, named ``global_own``, ..."""
        placed = place(subject, self.options)
        half = self.options.points // 2
        axis = torch.linspace(-1, 1, 2 * half + 1, dtype=torch.float64) * self.options.extent
        axis[half] = 0.0
        work = np.cumsum([0, *(len(p.samples) for p in placed)]) / sum(len(p.samples) for p in placed)
        arrays = {"axis": axis.numpy()}
        for i, item in enumerate(placed):
            watch = lambda share, i=i: subject.progress(float(work[i] + share * (work[i + 1] - work[i])))  # noqa: E731
            plane = _plane(subject, item, axis, self.options.seed)
            arrays[item.key] = surface(
                subject.task.model, plane, item.samples, forward=item.special_forward, progress=watch
            )
        return Findings(
            arrays,
            {
                "round": subject.round,
                "client": self.options.client,
                "data": self.options.data,
                "samples": {p.on: len(p.samples) for p in placed},
                "centres": {p.key: finite(arrays[p.key][half, half]) for p in placed},
            },
        )


def _not_counted(found: Findings) -> set[str]:
    """The data sets of surfaces whose samples were not counted."""
    return {name.partition("_")[2] for name in found.arrays if "_" in name} - set(found.values["samples"])


def _plane(subject: Subject, item: Placed, axis: torch.Tensor, seed: int) -> Plane:
    own = {n: item.params[n] for n in subject.task.model.names}
    u, v = (filter_normalized(gaussian(own, seed, which), own) for which in (0, 1))
    steps = axis.to(subject.task.device, subject.task.dtype)
    return Plane(item.params, u, v, steps, steps)
