"""Clients of two kinds, and the results of clustered runs."""

from dataclasses import replace

import numpy as np
import torch

from engine.federation.clients import Federation
from tests.support import reference
from tests.support.builders import federation
from tests.support.reference import as_matrix

TRUTH = np.array([0, 1, 0, 1, 1, 0])
ZEROS = {"name": "mlr", "init": "zeros"}


def two_rules(sizes: tuple[int, ...] = (8,) * 6) -> Federation:
    """Clients of context 1 have the labels of context 0 in reverse order."""
    data = federation(sizes, seed=3)
    rule = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for part in (data.train, data.test):
        owner = torch.repeat_interleave(torch.from_numpy(TRUTH[: len(sizes)]), part.sizes)
        features, _ = part.of_everyone()
        logits = features @ rule
        part.pool.y[part.rows] = torch.where(owner == 0, logits.argmax(1), logits.argmin(1))
    return replace(data, contexts=TRUTH[: len(sizes)])


def groups(labels: torch.Tensor | np.ndarray) -> set[frozenset[int]]:
    """A clustering independent of its cluster numbers."""
    return {frozenset(np.flatnonzero(np.asarray(labels) == k)) for k in np.unique(labels)}


def training_loss(run, W: np.ndarray, client: int) -> float:
    x, y = run.task.data.train.of_client(int(client))
    return reference.loss(W, x.numpy(), y.numpy())


def matrices(run) -> np.ndarray:
    """[K, C, F + 1] models of the clusters."""
    return as_matrix(run.state.contexts.models)
