"""Clients as points, round by round: the run is trained again, and each personalized model is put on one plane.

The plane is that of the two principal components of the stored models, those the run ended with; models of earlier
rounds are projected onto it. So what is near in the last round is alike, and ``shown`` says how much of the clients'
differences the plane holds in each round.

A run is determined by its configuration and seed. Whether the rounds lead to the stored models again is measured and
told as ``difference``.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from engine.analyses import AnalysisOptions
from engine.analyses.model_pca import Plane, fit, spread
from engine.analyses.support.directions import norm
from engine.analyses.support.loaded_run import Subject
from engine.core.findings import Findings
from engine.core.params import SharedParams, row
from engine.core.registry import ANALYSES
from engine.simulation.simulate import Models, Simulation

MOST_ROUNDS = 60


@dataclass
class Places:
    """What is gathered on the way, a row a round."""

    rounds: list[int] = field(default_factory=list)
    clients: list[np.ndarray] = field(default_factory=list)  # [N, 2]
    shared: list[np.ndarray] = field(default_factory=list)  # [N or 1, 2]
    shown: list[float] = field(default_factory=list)


@ANALYSES.register("client_map", title="Clients on a map", paper="Principal components of the clients' models")
@dataclass(frozen=True)
class ClientMap:
    """Arrays, for R rounds and N clients:

    rounds   [R]        evaluated ones, evenly chosen where there are more than 60
    clients  [R, N, 2]  places of the personalized models
    shared   [R, G, 2]  of the global model (G = 1) or of the one each client would be given (G = N); may be absent
    start    [2]        of the common start; may be absent
    shown    [R]        share of the clients' squared distances from their mean that the plane holds
    explained [2]       share of the variance of the stored models along each axis

    Value ``difference``: the largest distance of a replayed from its stored model, over the largest stored norm.
    """

    options: AnalysisOptions

    def compute(self, subject: Subject) -> Findings:
        plane, wanted = fit(subject.models.personalized), chosen_rounds(subject.config.evaluation.every, subject.round)
        places, models = Places(), subject.models
        for simulation in replay(subject):
            if simulation.round in wanted:
                models = simulation.models()
                add(places, plane, simulation.round, models)
        return _findings(places, plane, subject.models, models)


def replay(subject: Subject) -> Iterator[Simulation]:
    """The run, trained again, after each round up to that of the subject's models. Nothing is measured on the way."""
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
    """At most ``MOST_ROUNDS`` evaluated rounds, evenly spread, the first and the last among them."""
    evaluated = sorted({*range(0, last + 1, every), last})
    places = np.linspace(0, len(evaluated) - 1, min(len(evaluated), MOST_ROUNDS)).round().astype(int)
    return {evaluated[i] for i in places}


def add(places: Places, plane: Plane, round: int, models: Models) -> None:
    clients = np.stack([plane.place(params) for params in models.personalized])
    places.rounds.append(round)
    places.clients.append(clients)
    places.shared.append(_shared(plane, models))
    places.shown.append(_share_shown(clients, models.personalized))


def _share_shown(clients: np.ndarray, models: list[SharedParams]) -> float:
    """1 where the clients are alike: there is nothing that is not shown."""
    whole = spread(models)
    inside = float(np.square(clients - clients.mean(0)).sum())
    return min(1.0, inside / whole) if whole > 0 else 1.0


def _shared(plane: Plane, models: Models) -> np.ndarray:
    """The global model, or those that the clients would be given; none where there is none of this kind."""
    params = models.global_model
    if params is None:
        return np.zeros((0, 2))
    clients = range(len(models.personalized))
    given = [row(params, i) for i in clients] if models.is_global_per_client else [params]
    return np.stack([plane.place(p) for p in given]) if plane.holds(given[0]) else np.zeros((0, 2))


def difference(stored: list[SharedParams], again: list[SharedParams]) -> float:
    """max_i ||again_i - stored_i|| / max_i ||stored_i||."""
    gaps = [{n: p.double() - old[n].double() for n, p in new.items()} for new, old in zip(again, stored, strict=True)]
    return max(map(norm, gaps)) / (max(map(norm, stored)) or 1.0)


def _findings(places: Places, plane: Plane, stored: Models, again: Models) -> Findings:
    arrays = {
        "rounds": np.array(places.rounds, np.int32),
        "clients": np.stack(places.clients).astype(np.float32),
        "shown": np.array(places.shown, np.float32),
        "explained": plane.explained.astype(np.float32),
    }
    if places.shared[-1].size:
        arrays["shared"] = np.stack(places.shared).astype(np.float32)
    if plane.holds(stored.initial):
        arrays["start"] = plane.place(stored.initial).astype(np.float32)
    return Findings(arrays, {"difference": difference(stored.personalized, again.personalized)})
