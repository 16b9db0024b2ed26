"""Tiny experiments on digits, and the parts of their runs that tests compare."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.config.files import set_value
from engine.config.schema import parse_experiment
from engine.worker import AnalysisTicket, Ticket
from engine.worker.process import work_on
from storage import NewRun, RunRecord, Store

TINY = {
    "name": "tiny",
    "dataset": "digits",
    "partition": {"name": "classes_per_client", "num_clients": 4},
    "model": "mlr",
    "training": {"rounds": 6, "local_steps": 2, "participation": 0.5},
    "algorithms": ["ditto"],
    "seeds": [0],
    "checkpoint_s": 1e-6,
}


def queue(store: Store, *, owner: str = "", **changes: Any) -> list[int]:
    """Queues the tiny experiment; ``training__rounds=9`` changes an option."""
    raw: dict[str, Any] = TINY
    for path, value in changes.items():
        raw = set_value(raw, path.replace("__", "."), value)
    runs = [
        NewRun(r.algorithm.name, r.label, r.seed, r.hparams, r.to_dict(), r.training.rounds, r.digest)
        for r in parse_experiment(raw).runs()
    ]
    experiment = store.experiments.create(raw["name"], raw, runs, owner=owner)
    return sorted(run.id for run in store.queue.runs(experiment_ids=[experiment.id]))


def ticket_of(store: Store, run: RunRecord) -> Ticket:
    return Ticket(run.id, run.epoch, store.url, store.artifacts.folder, store.artifacts.folder)


def claim(store: Store) -> Ticket:
    run = store.queue.claim()
    assert run is not None
    return ticket_of(store, run)


def claim_analysis(store: Store) -> AnalysisTicket:
    analysis = store.analyses.claim()
    assert analysis is not None
    places = (store.url, store.artifacts.folder, store.artifacts.folder)
    return AnalysisTicket(analysis.id, analysis.run_id, analysis.epoch, analysis.attempts, *places)


def compute(store: Store, **changes: Any) -> RunRecord:
    """Queues, claims and computes a run in this process."""
    queue(store, **changes)
    ticket = claim(store)
    work_on(store, ticket)
    return store.queue.get(ticket.run_id)


def rows(store: Store, run_id: int) -> list[tuple]:
    """Everything stored of every round except the seconds, for comparison with ==."""
    return [
        (
            r.round,
            r.evaluated,
            r.cohort.tolist(),
            None if r.clusters is None else r.clusters.tolist(),
            {n: repr(v) for n, v in r.scalars.items() if "seconds" not in n},
            {n: (a.dtype.str, a.shape, a.tobytes()) for n, a in r.arrays.items()},
        )
        for r in store.metrics.rounds(run_id)
    ]


def numbers(rows: list[tuple]) -> list[tuple]:
    """``rows`` with their numbers, for comparison to rounding."""
    return [
        (
            *whole,
            {n: float(v) for n, v in scalars.items()},
            {n: np.frombuffer(data, dtype).tolist() for n, (dtype, _, data) in arrays.items()},
        )
        for *whole, scalars, arrays in rows
    ]


def kinds(store: Store, run_id: int) -> list[str]:
    return sorted(artifact.kind for artifact in store.artifacts.list(run_id))


def stored_rounds(store: Store, run_id: int) -> np.ndarray:
    return np.array(store.metrics.stored_rounds(run_id))


@dataclass(frozen=True)
class Undisturbed:
    """A run without interruptions, with everything stored."""

    run: RunRecord
    rows: list[tuple]
    kinds: list[str]
