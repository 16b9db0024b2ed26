"""A run of clustered clients: their models in the plane in which they differ most, and their clusters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.stories.mini_run import Trained, rounds
from app.stories.shared_steps import Run


@dataclass(frozen=True)
class ContextStep:
    """The clients after a round of CGPFL with one number of clusters, or of CGPFL-Heur."""

    round: int
    places: np.ndarray  # [N, 2] the clients' models
    centers: np.ndarray  # [N, 2] the model of each client's cluster
    clusters: np.ndarray  # [N]
    accuracies: np.ndarray  # [N] of the clients' models, on their own test samples
    is_settled: bool

    @property
    def value(self) -> float:
        """The mean accuracy of the clients."""
        return float(self.accuracies.mean())


ContextRun = Run[ContextStep]


def steps(config: Mapping[str, Any]) -> Iterator[ContextStep]:
    before = None
    for trained in rounds(config):
        step = _step(trained, before)
        yield step
        before = step.places


def _step(trained: Trained, before: np.ndarray | None) -> ContextStep:
    """``before`` are the places after the last round."""
    (result,), models = trained.results, trained.simulations[0].models()
    assert models.global_model is not None  # a clustered method's: for each client the model of its cluster
    personal = {n: np.stack([_plain(model[n]) for model in models.personalized]) for n in models.personalized[0]}
    centers = {n: _plain(p) for n, p in models.global_model.items()}
    N = len(models.personalized)
    places, center_places = in_plane(_flat(personal), _flat(centers), np.zeros((N, 2)) if before is None else before)
    clusters = np.zeros(N, int) if result.clusters is None else result.clusters
    accuracies = result.arrays["personalized.accuracy"]
    return ContextStep(trained.round, places, center_places, clusters, accuracies, trained.is_over)


def in_plane(models: np.ndarray, centers: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``models`` [N, d] and ``centers`` in the models' two principal components, turned to lie as ``before`` [N, 2].

    Components have no direction of their own: without the turn (orthogonal Procrustes) points would jump across.
    """
    middle = models.mean(0)
    axes = np.linalg.svd(models - middle, full_matrices=False)[2][:2].T
    places = (models - middle) @ axes
    left, _, right = np.linalg.svd(places.T @ (before - before.mean(0)))
    turn = left @ right
    return places @ turn, (centers - middle) @ axes @ turn


def _flat(models: Mapping[str, np.ndarray]) -> np.ndarray:
    """[N, d] of parameters [N, ...]"""
    return np.concatenate([p.reshape(len(p), -1) for p in models.values()], axis=1)


def _plain(params: Any) -> np.ndarray:
    return np.asarray(params.double().cpu().numpy())
