"""Runs of several kinds with an analysis each, their undisturbed reference, and a comparison of the two."""

import threading
from contextlib import closing
from typing import Any

import sqlalchemy as sa

from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from engine.worker import Dispatcher, LocalExecutor
from storage import ArtifactDamaged, RunRecord, Store
from storage.sqlite import driver
from tests.worker.samples import rows

CHECKPOINT_S = 0.3
PARTITION = {"name": "classes_per_client", "num_clients": 8, "classes_per_client": 4}
ENDLESS = 100_000
COMMON = {"dataset": "digits", "partition": PARTITION, "checkpoint_s": CHECKPOINT_S}
Experiments = tuple[dict[str, Any], ...]
EXPERIMENTS: Experiments = (
    COMMON
    | {
        "name": "fused",
        "backend": "fused",
        "model": "mlr",
        "training": {"rounds": 300, "participation": 0.5},
        "algorithms": ["fedavg", {"name": "cgpfl", "K": 2}, {"name": "ditto", "training": {"participation": 0.3}}],
    },
    COMMON
    | {
        "name": "batched",
        "backend": "batched",
        "model": {"name": "dnn", "hidden": 16},
        "evaluation": {"every": 3},
        "training": {"rounds": 160, "participation": 0.6, "local_steps": 4},
        "algorithms": ["fedper", {"name": "ifca", "K": 3}, "apfl"],
    },
    COMMON
    | {
        "name": "loop",
        "backend": "loop",
        "model": "mlr",
        "training": {"rounds": 160, "participation": 0.5, "local_steps": 4, "dtype": "float64"},
        "algorithms": ["scaffold", {"name": "pfedme", "inner_steps": 2}, {"name": "cfl"}],
    },
)
DIALS: Experiments = (  # what they remember is in the checkpoint: residuals, the norm, the clock, epsilon
    COMMON
    | {
        "name": "dials",
        "backend": "fused",
        "model": "mlr",
        "evaluation": {"every": 20},
        "training": {"rounds": 200, "participation": 0.5, "local_steps": 5},
        "algorithms": [
            {"name": "fedavg", "label": "residuals", "compression": {"name": "top_k", "share": 0.05}},
            {"name": "scaffold", "label": "controls", "compression": {"name": "qsgd", "bits": 2, "feedback": True}},
            {"name": "ditto", "label": "norm", "privacy": {"clip": "adaptive", "count_noise": 5, "delta": 0.01}},
            {"name": "fedavg", "label": "clock", "system": {"compute_s": 0.01, "deadline_s": 0.5, "drop_out": 0.2}},
            {"name": "fedavg", "label": "samples", "privacy": {"unit": "sample", "delta": 0.01}},
            {"name": "apfl", "label": "attacked", "attack": "gaussian", "aggregator": "median"},
        ],
    },
)
ANALYSES = ("confusion", "sharpness", "client_map", "landscape")


def queue_all(store: Store, experiments: Experiments = EXPERIMENTS) -> list[RunRecord]:
    """Queues each experiment once; returns the runs in the order of the queue."""
    made = []
    for raw in experiments:
        runs = [new_run(run) for run in parse_experiment(raw).runs()]
        made.append(store.experiments.create(raw["name"], raw, runs).id)
    return store.queue.runs(experiment_ids=made, newest_first=False)


def queue_long(store: Store, number: int) -> list[RunRecord]:
    """Queues ``number`` runs that do not end by themselves, as one experiment."""
    runs = []
    for raw, seed in ((raw, seed) for seed in range(number) for raw in EXPERIMENTS):
        long = raw | {"training": raw["training"] | {"rounds": ENDLESS}, "seeds": [seed], "checkpoint_s": 10.0}
        runs += [new_run(run) for run in parse_experiment(long).runs()]
    made = store.experiments.create("long", {}, runs[:number])
    return store.queue.runs(experiment_ids=[made.id], newest_first=False)


def request_analysis(store: Store, run: RunRecord, experiments: Experiments = EXPERIMENTS) -> None:
    """Requests the analysis that is assigned to the run's method."""
    methods = sorted({run.label for raw in experiments for run in parse_experiment(raw).runs()})
    store.analyses.request(run.id, ANALYSES[methods.index(run.label) % len(ANALYSES)], {})


def compute_undisturbed(store: Store, slots: int, experiments: Experiments = EXPERIMENTS) -> list[RunRecord]:
    """Computes all runs and analyses with a dispatcher that nothing interrupts."""
    store.ensure_schema()
    queue_all(store, experiments)
    with Dispatcher.acquire(store, LocalExecutor(slots)) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
        for run in store.queue.runs():
            request_analysis(store, run, experiments)
        dispatcher.run(threading.Event(), until_idle=True)
    return store.queue.runs()


def differences(store: Store, run: RunRecord, reference: Store, twin: RunRecord) -> list[str]:
    """What differs, bit for bit, between a run and its twin in the reference; seconds aside."""
    actual, expected = _aspects(store, run), _aspects(reference, twin)
    return [f"run {run.id} ({run.label}): different {name}" for name in expected if actual[name] != expected[name]]


def damage(store: Store) -> list[str]:
    """Damage to the database file and its artifacts."""
    folder = store.artifacts.folder
    files = {path.relative_to(folder).as_posix() for path in folder.glob("**/*") if path.is_file()}
    artifacts = [artifact for run in store.queue.runs() for artifact in store.artifacts.list(run.id)]
    problems = [f"file {path} has no row" for path in files - {artifact.path for artifact in artifacts}]
    for artifact in artifacts:
        try:
            store.artifacts.read(artifact)
        except ArtifactDamaged as damaged:
            problems.append(str(damaged))
    with closing(driver().connect(sa.make_url(store.url).database)) as connection:
        (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
        orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    problems += [f"integrity: {answer}"] if answer != "ok" else []
    return problems + [f"row without its parent: {row}" for row in orphans]


def _aspects(store: Store, run: RunRecord) -> dict[str, Any]:
    files = {a.kind: (a.round, a.sha256) for a in store.artifacts.list(run.id)}
    return {
        "status and error": (run.status, run.error, run.control, run.round),
        "rounds": rows(store, run.id),
        "summaries": run.summary,
        "provenance and partition": (run.provenance, run.partition),
        "analyses": [(a.kind, a.status, a.error) for a in store.analyses.list(run.id)],
        "files": (files, len(store.artifacts.list(run.id))),
    }
