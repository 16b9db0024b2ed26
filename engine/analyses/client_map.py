"""Clients as points, round by round: the run is replayed, and each personalized model is projected onto one plane.

The plane is spanned by the two principal components of the stored models, those at the end of the run; models of
earlier rounds are projected onto it. So points that are close in the last round are similar models, and ``shown`` is
the share of the clients' differences that the plane captures in each round.

A run is determined by its configuration and seed. The deviation of the replayed from the stored models is
reported as ``difference``.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.analyses import AnalysisOptions
from engine.analyses.model_pca import Plane, fit, spread
from engine.analyses.support.directions import norm
from engine.analyses.support.layouts import Layout, Values
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.params import SharedParams, row
from engine.core.registry import ANALYSES
from engine.simulation.simulate import Models, Simulation

MAX_ROUNDS = 60


@dataclass
class ReplayedRounds:
    """The replayed rounds, one entry per round."""

    rounds: list[int] = field(default_factory=list)
    clients: list[np.ndarray] = field(default_factory=list)  # [N, 2]
    shared: list[np.ndarray] = field(default_factory=list)  # [N or 1, 2]
    shown: list[float] = field(default_factory=list)


class MapValues(Values):
    difference: float


@ANALYSES.register("client_map", title="Clients on a map", paper="Principal components of the clients' models")
@dataclass(frozen=True)
class ClientMap:
    """Arrays, for R rounds and N clients:

    rounds   [R]        evaluated ones, evenly chosen where there are more than 60
    clients  [R, N, 2]  points of the personalized models
    shared   [R, K, 2]  of the global model (K = 1) or of each client's global model (K = N); optional
    start    [2]        of the initial model; optional
    shown    [R]        share of the clients' squared distances from their mean captured by the plane
    explained [2]       share of the variance of the stored models along each axis

    Value ``difference``: the largest distance of a replayed from its stored model, over the largest stored norm.
    """

    options: AnalysisOptions

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        return Layout(
            {"rounds": "R", "clients": "R N 2", "shown": "R", "explained": "2"},
            {"shared": "R K 2", "start": "2"},
            values=MapValues,
        )

    def compute(self, subject: Subject) -> Findings:
        if subject.models.is_common:
            raise Unsupported("all clients use the same model, so there are no differences to map")
        plane = fit(subject.models.different)
        replay_rounds = chosen_rounds(subject.config.evaluation.every, subject.round)
        replayed, models = ReplayedRounds(), subject.models
        for simulation in replay(subject):
            if simulation.round in replay_rounds:
                models = simulation.models()
                add(replayed, plane, simulation.round, models)
        return _findings(replayed, plane, subject.models, models)


def replay(subject: Subject) -> Iterator[Simulation]:
    """Replays the run up to the round of the subject's models, and yields after each round. Skips evaluation."""
    share = 0.0
    unmeasured = subject.config.evaluation.model_copy(update={"every": max(subject.round, 1)})
    config = dataclasses.replace(subject.config, evaluation=unmeasured)
    simulation = Simulation(config, data=subject.task.data, tick=lambda: subject.progress(share))
    for result in simulation.rounds():
        share = result.round / max(subject.round, 1)
        subject.progress(share)
        yield simulation
        if result.round == subject.round:
            return


def chosen_rounds(every: int, last: int) -> set[int]:
    """Choose at most ``MAX_ROUNDS`` evaluated rounds, evenly spaced, including the first and the last."""
    evaluated = sorted({*range(0, last + 1, every), last})
    replayed = np.linspace(0, len(evaluated) - 1, min(len(evaluated), MAX_ROUNDS)).round().astype(int)
    return {evaluated[i] for i in replayed}


def add(replayed: ReplayedRounds, plane: Plane, round: int, models: Models) -> None:
    places = np.stack([plane.place(params) for params in models.different])
    clients = np.repeat(places, len(models.personalized) // len(places), axis=0)
    replayed.rounds.append(round)
    replayed.clients.append(clients)
    replayed.shared.append(_shared(plane, models))
    replayed.shown.append(_share_shown(clients, models.different))


def _share_shown(clients: np.ndarray, models: Sequence[SharedParams]) -> float:
    """The share of the variance captured by the plane; 1 if the clients are equal."""
    whole = spread(models)
    inside = float(np.square(clients - clients.mean(0)).sum())
    return min(1.0, inside / whole) if whole > 0 else 1.0


def _shared(plane: Plane, models: Models) -> np.ndarray:
    """The global model or models; empty if there are none of this kind."""
    params = models.global_model
    if params is None:
        return np.zeros((0, 2))
    clients = range(len(models.personalized))
    given = [row(params, i) for i in clients] if models.is_global_per_client else [params]
    return np.stack([plane.place(p) for p in given]) if plane.holds(given[0]) else np.zeros((0, 2))


def difference(stored: Models, again: Models) -> float:
    """max_i ||again_i - stored_i|| / max_i ||stored_i||."""
    pairs = zip(again.personalized, stored.personalized, strict=True)
    gaps = [{n: p.double() - old[n].double() for n, p in new.items()} for new, old in pairs]
    return max(map(norm, gaps)) / (max(map(norm, stored.different)) or 1.0)


def _findings(replayed: ReplayedRounds, plane: Plane, stored: Models, again: Models) -> Findings:
    arrays = {
        "rounds": np.array(replayed.rounds, np.int32),
        "clients": np.stack(replayed.clients).astype(np.float32),
        "shown": np.array(replayed.shown, np.float32),
        "explained": plane.explained.astype(np.float32),
    }
    if replayed.shared[-1].size:
        arrays["shared"] = np.stack(replayed.shared).astype(np.float32)
    if plane.holds(stored.initial):
        arrays["start"] = plane.place(stored.initial).astype(np.float32)
    return Findings(arrays, {"difference": difference(stored, again)})
