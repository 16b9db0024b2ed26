"""The loss on the plane through three models: global, a client's personalized one, and one trained by it alone.

Garipov, Izmailov, Podoprikhin, Vetrov, Wilson. Loss Surfaces, Mode Connectivity, and Fast Ensembling of DNNs. NeurIPS
2018. https://arxiv.org/abs/1802.10026, the planes of its figure 1. Distances on the plane are distances between
parameters: the axes are made orthonormal by Gram-Schmidt. The model trained alone is LocalTrain's, for the same client,
rounds and batches. If a method has no global model, or every client uses it, the initial model takes its place. The
plane is one of network weights: parts that a method adds (conditions, prototypes) are the client's throughout. Only the
losses of the three models are their own: the others predict without these parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from engine.algorithms import special_forward
from engine.analyses.support.directions import difference, dot, norm, orthonormal, without
from engine.analyses.support.layouts import Layout, Number, Values
from engine.analyses.support.loaded_run import Subject
from engine.analyses.support.local_only import trained_alone
from engine.analyses.support.probes import On, OnSamples, own_samples, pooled_samples
from engine.analyses.support.surface import Plane, mean_loss, surface
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.json_values import finite
from engine.core.params import SharedParams
from engine.core.registry import ANALYSES

_NEAR = 1e-6  # relative to a model's norm; smaller distances are rounding


class Options(OnSamples):
    points: int = Field(41, ge=3, le=101, title="Points", description="Along each side.")
    margin: float = Field(0.4, gt=0, le=5, title="Margin", description="Around the models, as a share of their span.")


Model = Literal["global", "personalized", "alone", "initial"]


class PlaneValues(Values):
    models: Annotated[list[Model], Field(min_length=3, max_length=3)]
    losses: dict[On, dict[Model, Number]]
    has_parts: bool = False  # whether the method adds parts, which the surfaces keep


@ANALYSES.register("plane", title="Plane through three models", paper="Garipov et al., NeurIPS 2018")
@dataclass(frozen=True)
class ThreeModels:
    options: Options

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        return Layout(
            {"x": "A", "y": "B", "own": "B A", "everyone": "B A", "places": "3 2"},
            values=PlaneValues,
            missing=_without_loss,
        )

    def compute(self, subject: Subject) -> Findings:
        """``x`` [A], ``y`` [B], surfaces ``own`` and ``everyone`` [B, A], and the positions of the models."""
        o = self.options
        grounds = {"own": own_samples(subject, o), "everyone": pooled_samples(subject, o)}
        corners = _corners(subject, o.client)
        origin, *others = corners.values()
        first, second = orthonormal(*(difference(p, origin) for p in others))
        places = np.array([[dot(difference(p, origin), axis) for axis in (first, second)] for p in corners.values()])
        x, y = _axes(places, o.points, o.margin)
        own = subject.movable_network_of(o.client)
        steps = (torch.from_numpy(v).to(subject.task.device, subject.task.dtype) for v in (x, y))
        plane = Plane(own | origin, first, second, *steps)
        forward = special_forward(subject.algorithm, subject.task.model)
        arrays, losses = {"x": x, "y": y, "places": places}, {}
        for i, (on, samples) in enumerate(grounds.items()):
            watch = lambda share, i=i: subject.progress(0.5 + 0.25 * (i + share))  # noqa: E731
            arrays[on] = surface(subject.task.model, plane, samples, forward=forward, progress=watch)
            losses[on] = {
                name: finite(
                    mean_loss(subject.task.model, own | p, samples, forward)
                    if name == "personalized"
                    else mean_loss(subject.task.model, p, samples)
                )
                for name, p in corners.items()
            }
        return Findings(
            arrays,
            {
                "round": subject.round,
                "client": o.client,
                "data": o.data,
                "models": list(corners),
                "samples": {on: len(samples) for on, samples in grounds.items()},
                "losses": losses,
                "has_parts": forward is not None,
            },
        )


def _without_loss(found: Findings) -> set[str]:
    """``everyone alone``: the models that have no loss on some data."""
    needed = {f"{on} {model}" for on in ("own", "everyone") for model in found.values["models"]}
    return needed - {f"{on} {model}" for on, losses in found.values["losses"].items() for model in losses}


def _corners(subject: Subject, client: int) -> dict[str, SharedParams]:
    """Three distinct models, by name. Raises Unsupported if there are fewer."""
    shared, names = subject.global_model, subject.task.model.names
    candidates = {} if shared is None else {"global": shared.of_client(client)}
    candidates |= {"personalized": subject.movable_network_of(client), "alone": trained_alone(subject, client)}
    candidates |= {"initial": subject.models.initial}
    moving = {name: {n: params[n] for n in names} for name, params in candidates.items()}
    chosen: dict[str, SharedParams] = {}
    for name, params in moving.items():
        if len(chosen) < 3 and not _is_among(params, list(chosen.values())):
            chosen[name] = params
    if len(chosen) < 3:
        if _is_among(moving["alone"], [moving["initial"]]):
            why = (
                f"it took part in no round up to {subject.round}, so the model trained alone is the initial one; "
                "choose another client"
            )
        else:
            why = "in this method its model and the one trained alone are the same; choose the run of another method"
        raise Unsupported(f"a plane needs three distinct models, but client {client} has {len(chosen)}: {why}")
    return chosen


def _is_among(params: SharedParams, chosen: list[SharedParams]) -> bool:
    """Whether a model equals another one, or is on the line through two."""
    if not chosen:
        return False
    far = difference(params, chosen[0])
    if len(chosen) == 2:
        far = without(orthonormal(difference(chosen[1], chosen[0]), far)[0], far)
    return norm(far) <= _NEAR * norm(params)


def _axes(places: np.ndarray, points: int, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The axes of a square around the three models, with equal scales."""
    low, high = places.min(0), places.max(0)
    half = (0.5 + margin) * (high - low).max()
    x, y = (np.linspace(middle - half, middle + half, points) for middle in (low + high) / 2)
    return x, y
