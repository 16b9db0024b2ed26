"""Sharpness: how fast the loss rises around a model, by three measures.

Foret, Kleiner, Mobahi, Neyshabur. Sharpness-Aware Minimization for Efficiently Improving Generalization. ICLR 2021.
https://arxiv.org/abs/2010.01412. PLGU (Qu et al., CVPR 2023) trains personalized models with it.

    max over ||eps|| <= rho of L(theta + eps) - L(theta)        the worst model nearby
    largest eigenvalue of the Hessian of L                      the steepest direction
    trace of the Hessian of L                                   all directions together

rho is a distance in the parameters, the same for every model. L is the mean cross-entropy, without other terms.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch.nn import functional as F

from engine.analyses.support.hessian import Objective, Term, top_eigenvalue, trace, worst_in_ball
from engine.analyses.support.layouts import Count, Layout, Number, Values
from engine.analyses.support.loaded_run import Subject
from engine.analyses.support.probes import On, OnSamples, Placed, Samples, data_of, place, placed_own
from engine.analyses.support.surface import rows_at_once
from engine.core.findings import Findings
from engine.core.json_values import finite
from engine.core.params import SharedParams
from engine.core.registry import ANALYSES
from engine.core.streams import torch_stream
from engine.core.vocabulary import ModelKind
from engine.training.evaluate import evaluate

_ACCURATE, _ROUGH = 1e-3, 1e-2  # tolerance of the eigenvalue; the second is for all clients


class Options(OnSamples):
    of: Literal["client", "clients"] = Field(
        "client", title="Of", description="One client's model and the global one, or the models of all clients."
    )
    rho: float = Field(
        0.05, gt=0, le=100, title="ρ", description="Radius within which the largest loss is searched for."
    )
    steps: int = Field(20, ge=1, le=200, title="Steps", description="Gradient ascent steps of that search.")
    vectors: int = Field(32, ge=2, le=1000, title="Vectors", description="Random sign vectors for the trace.")


class Measure(Values):
    model: ModelKind
    on: On
    samples: Count
    loss: Number
    first_order: Number
    worst: Number
    eigenvalue: Number
    eigenvalue_bound: Number
    trace: Number
    trace_error: Number


class SharpnessValues(Values):
    measures: Annotated[list[Measure], Field(min_length=1, max_length=4)]


@ANALYSES.register("sharpness", title="Sharpness", paper="Foret et al., ICLR 2021")
@dataclass(frozen=True)
class Sharpness:
    options: Options

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        if params.get("of") == "clients":
            return Layout(dict.fromkeys(("eigenvalue", "rise", "loss", "accuracy"), "N"))
        return Layout(values=SharpnessValues, missing=_not_measured)

    def compute(self, subject: Subject) -> Findings:
        return self._of_clients(subject) if self.options.of == "clients" else self._of_client(subject)

    def _of_client(self, subject: Subject) -> Findings:
        """``measures``: a row for each model and data."""
        placed = place(subject, self.options)
        rows = []
        for i, item in enumerate(placed):
            watch = _Watch(subject, i / len(placed), 1 / len(placed), 130 + self.options.vectors)
            rows.append(
                {"model": item.model, "on": item.on, "samples": len(item.samples)} | self._measure(subject, item, watch)
            )
        return Findings({}, {"round": subject.round, "client": self.options.client, "measures": rows})

    def _of_clients(self, subject: Subject) -> Findings:
        """[N] each: ``eigenvalue``, ``rise``, ``loss`` of a client's model on its samples; ``accuracy`` in its test."""
        count = subject.task.num_clients
        arrays = {n: np.full(count, np.nan) for n in ("eigenvalue", "rise", "loss")}
        for client in np.flatnonzero(data_of(subject, self.options.data).sizes.cpu().numpy()).tolist():
            watch = _Watch(subject, client / count, 1 / count, 120)
            objective = _objective(subject, placed_own(subject, self.options, client), watch)
            at, rho, steps = objective.start, self.options.rho, self.options.steps
            ball = worst_in_ball(objective, at, rho, _stream(subject), steps=steps)
            top = top_eigenvalue(objective, at, _stream(subject), tolerance=_ROUGH)
            arrays["eigenvalue"][client], arrays["loss"][client] = top.value, ball.center
            arrays["rise"][client] = ball.worst - ball.center
        arrays["accuracy"] = evaluate(subject.task, subject.personalized, subject.task.data.test)[0]
        return Findings(arrays, {"round": subject.round})

    def _measure(self, subject: Subject, item: Placed, watch: "_Watch") -> dict[str, Any]:
        o, objective = self.options, _objective(subject, item, watch)
        at = objective.start
        ball = worst_in_ball(objective, at, o.rho, _stream(subject), steps=o.steps)
        top = top_eigenvalue(objective, at, _stream(subject), tolerance=_ACCURATE)
        whole = trace(objective, at, _stream(subject), vectors=o.vectors)
        return {
            "loss": finite(ball.center),
            "first_order": finite(ball.first_order),
            "worst": finite(ball.worst),
            "eigenvalue": finite(top.value),
            "eigenvalue_bound": finite(top.bound),
            "trace": finite(whole.value),
            "trace_error": finite(whole.standard_error),
        }


def _not_measured(found: Findings) -> set[str]:
    """The personalized model is measured at least on its client's data."""
    return {"own"} - {row["on"] for row in found.values["measures"] if row["model"] == "personalized"}


class _Watch:
    """Converts an unknown number of steps into progress that never decreases."""

    def __init__(self, subject: Subject, begin: float, share: float, steps: int) -> None:
        self.subject, self.begin, self.share, self.steps, self.done = subject, begin, share, steps, 0

    def __call__(self) -> None:
        self.done += 1
        self.subject.progress(self.begin + self.share * min(1.0, self.done / self.steps))


def _objective(subject: Subject, item: Placed, watch: _Watch) -> Objective:
    """The mean loss over the item's samples, as a function of the network's parameters alone."""
    model = subject.task.model
    size = rows_at_once(model, item.params, item.samples)
    blocks = [
        Samples(item.samples.x[i : i + size], item.samples.y[i : i + size]) for i in range(0, len(item.samples), size)
    ]
    forward, total = item.special_forward or model.logits, len(item.samples)

    def term(block: Samples) -> Term:
        def loss(params: SharedParams) -> torch.Tensor:
            return F.cross_entropy(forward(item.params | params, block.x), block.y, reduction="sum") / total

        return loss

    return Objective([term(block) for block in blocks], {n: item.params[n] for n in model.names}, watch)


def _stream(subject: Subject) -> torch.Generator:
    return torch_stream(subject.config.seed, "sharpness")
