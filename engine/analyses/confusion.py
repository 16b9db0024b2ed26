"""Confusion matrices of each client's models on its own test samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.analyses import AnalysisOptions
from engine.analyses.support.layouts import Layout
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.task import Predictor

ROWS = 1024  # samples of a client per batch


@ANALYSES.register("confusion", title="Confusion matrices", paper="Counts of true against predicted classes")
@dataclass(frozen=True)
class Confusion:
    """Arrays, for N clients and C classes, rows are true and columns predicted classes:

    personalized [N, C, C]  int32, of each client's own model
    global       [N, C, C]  int32, of the client's global model; absent without one

    Samples with logits that are not finite are left out.
    """

    options: AnalysisOptions

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        return Layout({"personalized": "N C C"}, {"global": "N C C"})

    def compute(self, subject: Subject) -> Findings:
        predictors = {"personalized": subject.personalized, "global": subject.global_model}
        there = {name: predictor for name, predictor in predictors.items() if predictor is not None}
        if not subject.task.data.test.num_samples:
            raise Unsupported("no client has test samples; set partition.test_fraction above 0 and rerun it")
        arrays = {}
        for k, (name, predictor) in enumerate(there.items()):
            arrays[name] = _matrices(subject, predictor, k / len(there), 1 / len(there))
        return Findings(arrays)


def _matrices(subject: Subject, predictor: Predictor, done: float, share: float) -> np.ndarray:
    num_clients, num_classes = subject.task.num_clients, subject.task.data.num_classes
    counts = np.zeros((num_clients, num_classes, num_classes), np.int32)
    for client in range(num_clients):
        subject.progress(done + share * client / num_clients)
        x, y = subject.task.data.test.of_client(client)
        for begin in range(0, len(y), ROWS):
            rows = slice(begin, begin + ROWS)
            counts[client] += _counted(_logits(subject, predictor, client, x[rows]), y[rows])
    return counts


def _logits(subject: Subject, predictor: Predictor, client: int, x: Tensor) -> Tensor:
    forward = predictor.forward or subject.task.model.logits
    with torch.no_grad():
        return forward(predictor.of_client(client), x)


def _counted(logits: Tensor, y: Tensor) -> np.ndarray:
    """Counts [C, C] over the samples [B] with finite logits [B, C]."""
    num_classes = logits.shape[-1]
    known = logits.isfinite().all(-1)
    pairs = y[known] * num_classes + logits[known].argmax(-1)
    return torch.bincount(pairs, minlength=num_classes**2).view(num_classes, -1).cpu().numpy().astype(np.int32)
