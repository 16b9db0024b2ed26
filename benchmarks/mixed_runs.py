"""Runs of several kinds with an analysis of each, the same computed in peace, and how the two differ."""

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
MOST_ROUNDS = 100_000
COMMON = {"dataset": "digits", "partition": PARTITION, "checkpoint_s": CHECKPOINT_S}
EXPERIMENTS: tuple[dict[str, Any], ...] = (
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
ANALYSES = ("confusion", "sharpness", "client_map", "landscape")


def queue_all(store: Store) -> list[RunRecord]:
    """Each of the experiments once; answers their runs in the order in which they were asked for."""
    made = []
    for raw in EXPERIMENTS:
        runs = [new_run(run) for run in parse_experiment(raw).runs()]
        made.append(store.experiments.create(raw["name"], raw, runs).id)
    return store.queue.runs(experiment_ids=made, newest_first=False)


def queue_long(store: Store, number: int) -> list[RunRecord]:
    """As many of them, as one experiment, that go on for as long as anybody looks."""
    runs = []
    for raw, seed in ((raw, seed) for seed in range(number) for raw in EXPERIMENTS):
        long = raw | {"training": raw["training"] | {"rounds": MOST_ROUNDS}, "seeds": [seed], "checkpoint_s": 10.0}
        runs += [new_run(run) for run in parse_experiment(long).runs()]
    made = store.experiments.create("long", {}, runs[:number])
    return store.queue.runs(experiment_ids=[made.id], newest_first=False)


def request_analysis(store: Store, run: RunRecord) -> None:
    """The one that belongs to runs of this method."""
    methods = sorted({run.label for raw in EXPERIMENTS for run in parse_experiment(raw).runs()})
    store.analyses.request(run.id, ANALYSES[methods.index(run.label) % len(ANALYSES)], {})


def compute_in_peace(store: Store, slots: int) -> list[RunRecord]:
    """All of it by a dispatcher that nobody disturbs."""
    store.ensure_schema()
    queue_all(store)
    with Dispatcher.acquire(store, LocalExecutor(slots)) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
        for run in store.queue.runs():
            request_analysis(store, run)
        dispatcher.run(threading.Event(), until_idle=True)
    return store.queue.runs()


def differences(store: Store, run: RunRecord, peaceful: Store, twin: RunRecord) -> list[str]:
    """What of a run is not as of its twin, bit for bit; seconds aside."""
    mine, its = _aspects(store, run), _aspects(peaceful, twin)
    return [f"run {run.id} ({run.label}): its {name} differ" for name in its if mine[name] != its[name]]


def unsound(store: Store) -> list[str]:
    """What is wrong with the database file and the artifacts beside it, whatever the runs say."""
    folder = store.artifacts.folder
    files = {path.relative_to(folder).as_posix() for path in folder.glob("**/*") if path.is_file()}
    kept = [artifact for run in store.queue.runs() for artifact in store.artifacts.list(run.id)]
    wrong = [f"file {path} belongs to nobody" for path in files - {artifact.path for artifact in kept}]
    for artifact in kept:
        try:
            store.artifacts.read(artifact)
        except ArtifactDamaged as damaged:
            wrong.append(str(damaged))
    with closing(driver().connect(sa.make_url(store.url).database)) as connection:
        (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
        torn = connection.execute("PRAGMA foreign_key_check").fetchall()
    return wrong + ([f"integrity: {answer}"] if answer != "ok" else []) + [f"row without its parent: {r}" for r in torn]


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
