"""Database reads of the pages, as records and tables. Cached while runs do not change: a finished run is read once.

Every function may be called before the database exists and then returns nothing. ``problem()`` has the reason.
"""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.access import permits
from app.data import read_cache
from app.data.averages import benign, malicious_of, mean_of_known
from app.data.run_frames import by_client, joined, labeled
from engine.analyses.support.layouts import check_findings
from engine.core.errors import CheckpointInvalid
from engine.core.findings import Findings
from engine.core.paths import ROOT
from engine.core.vocabulary import ModelKind, When, summary_at
from storage import (
    FRESH_S,
    AnalysisRecord,
    EngineRecord,
    ExperimentNotFound,
    ExperimentRecord,
    RunRecord,
    Status,
    StorageError,
    Store,
)

CHECK_S = 3.0  # a database may become unavailable
SETS_KEPT, RUNS_KEPT = 60, 200  # cached tables of all runs that a page compares, and of single runs
Ids = tuple[int, ...]
Rounds = tuple[tuple[int, int], ...]  # runs, and a round of each


def store() -> Store:
    """The database of ``DATABASE_URL``: one Store per process and URL."""
    return _open(os.environ.get("DATABASE_URL", ""))


def problem() -> str | None:
    """Why the database cannot be read now, for the reader; None if it can."""
    try:
        _prepare(os.environ.get("DATABASE_URL", ""), int(time.monotonic() / CHECK_S))
    except StorageError as error:
        return str(error)
    return None


def experiments(include_archived: bool = False) -> list[ExperimentRecord]:
    """Newest first."""
    return [] if problem() else store().experiments.list(include_archived)


def experiment(experiment_id: int) -> ExperimentRecord | None:
    try:
        return None if problem() else store().experiments.get(experiment_id)
    except ExperimentNotFound:
        return None


def runs(
    *,
    experiment_ids: Sequence[int] | None = None,
    run_ids: Sequence[int] | None = None,
    statuses: Sequence[Status] | None = None,
    algorithms: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    include_archived: bool = False,
    limit: int | None = None,
    newest_first: bool = False,
    with_partition: bool = False,
) -> list[RunRecord]:
    """Runs that meet all conditions, in the order in which they were queued."""
    if problem():
        return []
    return store().queue.runs(
        experiment_ids=experiment_ids,
        run_ids=run_ids,
        statuses=statuses,
        algorithms=algorithms,
        seeds=seeds,
        include_archived=include_archived,
        limit=limit,
        newest_first=newest_first,
        with_partition=with_partition,
    )


def engines(within_s: float = FRESH_S) -> list[EngineRecord]:
    """Machines with a recent heartbeat."""
    return [] if problem() else store().engines.list(within_s)


def partition(run_id: int) -> dict[str, Any] | None:
    """The data split of a run: ``train_sizes``, ``test_sizes``, ``class_counts``, ..."""
    found = runs(run_ids=[run_id], include_archived=True, with_partition=True)
    return found[0].partition if found else None


def final_clients(of: Sequence[RunRecord], model: ModelKind = "personalized", when: When = "last") -> pd.DataFrame:
    """[run, label, algorithm, seed, client, accuracy, test_size].

    Clients without test samples and malicious ones are omitted.
    """
    found = all_clients(of, model, when)
    return found[~found["is_malicious"].astype(bool)].drop(columns="is_malicious").reset_index(drop=True)


def all_clients(of: Sequence[RunRecord], model: ModelKind = "personalized", when: When = "last") -> pd.DataFrame:
    """Like final_clients, with malicious clients, and who is one: [..., client, accuracy, test_size, is_malicious]."""
    version = (_version(of), _rounds_of(of, model, when))
    table = _clients(store().url, (_ids(of), f"{model}.accuracy", when), version)
    return labeled(table, of, ["client", "accuracy", "test_size", "is_malicious"])


def validation_clients(of: Sequence[RunRecord], model: ModelKind = "personalized") -> pd.DataFrame:
    """Like final_clients, in the last round and on validation data: [..., client, accuracy, val_size]."""
    table = _validation(store().url, (_ids(of), f"{model}.val_accuracy"), _version(of))
    return labeled(table, of, ["client", "accuracy", "val_size"])


def unseen_clients(of: Sequence[RunRecord]) -> pd.DataFrame:
    """Like final_clients, for clients held out of training, with their original numbers."""
    return labeled(_unseen(store().url, _ids(of), _version(of)), of, ["client", "accuracy", "test_size"])


def final_means(
    of: Sequence[RunRecord], name: str, model: ModelKind = "personalized", when: When = "last"
) -> pd.Series:
    """run -> mean over benign clients of one array, such as ``personalized.total_error``, in the last round that has it
    or in the best round by ``model``. Runs without it are omitted.
    """
    version = (_version(of), _rounds_of(of, model, when))
    return _final_means(store().url, (_ids(of), name, model, when), version)


def best_round(run: RunRecord, model: ModelKind = "personalized") -> int | None:
    """The evaluated round with the largest weighted mean accuracy, on validation data if there is any, or None."""
    return summary_at(run.summary, model, "best").get("round")


def scalar_series(of: Sequence[RunRecord], names: Sequence[str]) -> pd.DataFrame:
    """[run, label, algorithm, seed, round, name, value] of stored scalars such as ``personalized.mean``."""
    return labeled(_scalars(store().url, (_ids(of), tuple(names)), _version(of)), of, ["round", "name", "value"])


def final_scalars(of: Sequence[RunRecord], name: str) -> pd.Series:
    """run -> the last stored value of one scalar; runs without it are omitted."""
    found = scalar_series(of, [name]).dropna(subset=["value"])
    return found.groupby("run")["value"].last().astype(float)


def scalar_totals(until: Mapping[int, int], names: Sequence[str]) -> pd.DataFrame:
    """[run, <names>]: sums of stored scalars over the rounds up to ``until[run]``; 0 where there are none."""
    if not until or problem():
        return pd.DataFrame(columns=["run", *names])
    rounds = tuple(sorted(until.items()))
    return _totals(store().url, (tuple(run_id for run_id, _ in rounds), tuple(names)), rounds)


def mean_series(of: Sequence[RunRecord], names: Sequence[str]) -> pd.DataFrame:
    """Like scalar_series, for per-client values such as ``train_loss``: means over the benign clients that have one."""
    parts = [_means(store().url, (run.id, tuple(names)), run.round).assign(run=run.id) for run in of]
    return labeled(joined(parts, ["run", "round", "name", "value"]), of, ["round", "name", "value"])


def clustered(run_ids: Sequence[int]) -> set[int]:
    """The runs whose methods cluster their clients."""
    return set() if problem() else store().metrics.having_clusters(run_ids)


def client_series(run_id: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(rounds [R], values [R, N]) of one per-client array such as ``personalized.accuracy``."""
    return _array(store().url, (run_id, name), _last_round(run_id))


def clusters(run_id: int) -> tuple[np.ndarray, np.ndarray]:
    """(rounds [R], labels [R, N]); both empty if the method has no clusters."""
    return _clusters(store().url, run_id, _last_round(run_id))


def analysis(run_id: int, kind: str) -> Findings | None:
    """The findings of an analysis with its default options, if it is done."""
    found = None if problem() else store().analyses.find(run_id, kind, {})
    return findings(found) if found is not None and found.artifact_id is not None else None


def findings(analysis: AnalysisRecord) -> Findings:
    """The findings of a finished analysis: one read-only copy for all readers.

    Raises ArtifactDamaged, or CheckpointInvalid if the file was deleted or is not of this analysis.
    """
    found = _findings(store().url, analysis.artifact_id, analysis.finished_at)
    check_findings(analysis.kind, analysis.params, found, partition(analysis.run_id) or {})
    return found


@st.cache_resource(show_spinner=False)
def _open(url: str) -> Store:
    return Store(url or Store.default_url(ROOT), writing=permits.checked_writes, before_commit=permits.before_commit)


@st.cache_resource(show_spinner=False, max_entries=4)
def _prepare(url: str, period: int) -> bool:
    """Success is cached for a ``period`` of CHECK_S, an error is not.

    Not by ``ttl``: reading an entry that expires in that moment raises KeyError in Streamlit 1.67's cache.
    """
    with permits.of_the_app():
        _open(url).ensure_schema()
    return True


@read_cache.cached(SETS_KEPT)
def _clients(url: str, of: tuple[Ids, str, When], version: tuple[Rounds, Rounds]) -> pd.DataFrame:
    ids, name, _ = of
    found = store().queue.runs(run_ids=ids, include_archived=True)
    sizes = {run.id: (run.partition or {}).get("test_sizes") for run in found}
    arrays = store().metrics.arrays_at(ids, name, dict(version[1]))
    table = by_client(ids, arrays, {run_id: np.arange(len(values)) for run_id, values in arrays.items()}, sizes)
    malicious = {(run.id, client) for run in found for client in malicious_of(run.partition)}
    who = [pair in malicious for pair in zip(table["run"], table["client"], strict=True)] if malicious else False
    return table.assign(is_malicious=who)


@read_cache.cached(SETS_KEPT)
def _validation(url: str, of: tuple[Ids, str], version: Rounds) -> pd.DataFrame:
    ids, name = of
    found = store().queue.runs(run_ids=ids, include_archived=True, with_partition=True)
    sizes = {run.id: (run.partition or {}).get("val_sizes") for run in found}
    arrays = _of_benign(store().metrics.arrays_at(ids, name), found)
    table = by_client(ids, arrays, {run_id: np.arange(len(values)) for run_id, values in arrays.items()}, sizes)
    return table.rename(columns={"test_size": "val_size"})


def _of_benign(arrays: Mapping[int, np.ndarray], runs: Sequence[RunRecord]) -> dict[int, np.ndarray]:
    """The values by client of each run, [..., N], NaN for malicious clients, as in the engine's summaries."""
    malicious = {run.id: malicious_of(run.partition) for run in runs}
    return {i: benign(values, malicious[i]) for i, values in arrays.items()}


@read_cache.cached(SETS_KEPT)
def _unseen(url: str, ids: Ids, version: Rounds) -> pd.DataFrame:
    partitions = {run.id: run.partition or {} for run in store().queue.runs(run_ids=ids, include_archived=True)}
    held_out = {run_id: own["unseen"] for run_id, own in partitions.items() if own.get("unseen")}
    arrays = {i: a for i, a in store().metrics.arrays_at(ids, "unseen.accuracy").items() if i in held_out}
    clients = {run_id: np.array(own["clients"]) for run_id, own in held_out.items()}
    return by_client(ids, arrays, clients, {run_id: own["test_sizes"] for run_id, own in held_out.items()})


@read_cache.cached(SETS_KEPT)
def _final_means(url: str, of: tuple[Ids, str, ModelKind, When], version: tuple[Rounds, Rounds]) -> pd.Series:
    found = store().queue.runs(run_ids=of[0], include_archived=True)
    arrays = _of_benign(store().metrics.arrays_at(of[0], of[1], dict(version[1])), found)
    return pd.Series({i: float(mean_of_known(a[None])[0]) for i, a in arrays.items()}, dtype=float).dropna()


@read_cache.cached(SETS_KEPT)
def _scalars(url: str, of: tuple[Ids, tuple[str, ...]], version: Rounds) -> pd.DataFrame:
    curves = store().metrics.scalars(*of)
    found = [(run_id, name, *curve) for run_id, own in curves.items() for name, curve in own.items()]
    if not found:
        return pd.DataFrame()
    run_ids, titles, rounds, values = zip(*found, strict=True)
    lengths = [len(own) for own in rounds]
    return pd.DataFrame(
        {
            "run": np.repeat(run_ids, lengths),
            "round": np.concatenate(rounds),
            "name": np.repeat(titles, lengths),
            "value": np.concatenate(values),
        }
    )


@read_cache.cached(SETS_KEPT)
def _totals(url: str, of: tuple[Ids, tuple[str, ...]], until: Rounds) -> pd.DataFrame:
    names = of[1]
    sums = store().metrics.totals(dict(until), names)
    return pd.DataFrame([{"run": i, **{n: own.get(n, 0.0) for n in names}} for i, own in sums.items()])


@read_cache.cached(RUNS_KEPT)
def _means(url: str, of: tuple[int, tuple[str, ...]], last_round: int) -> pd.DataFrame:
    run_id, names = of
    found, parts = store().queue.runs(run_ids=[run_id], include_archived=True), []
    for name in names:
        at, values = store().metrics.array(run_id, name)
        values = _of_benign({run_id: values}, found)[run_id]
        parts.append(pd.DataFrame({"round": at, "name": name, "value": mean_of_known(values)}))
    return joined(parts, ["round", "name", "value"])


@read_cache.cached(50)
def _array(url: str, of: tuple[int, str], last_round: int) -> tuple[np.ndarray, np.ndarray]:
    return _read_only(store().metrics.array(*of))


@read_cache.cached(RUNS_KEPT)
def _clusters(url: str, run_id: int, last_round: int) -> tuple[np.ndarray, np.ndarray]:
    return _read_only(store().metrics.clusters(run_id))


@st.cache_resource(show_spinner=False, max_entries=200)
def _findings(url: str, artifact_id: int | None, finished_at: datetime | None) -> Findings:
    artifact = store().artifacts.get(artifact_id) if artifact_id is not None else None
    if artifact is None:
        raise CheckpointInvalid("the findings were deleted; recompute them")
    found = Findings.from_bytes(store().artifacts.read(artifact))
    for array in found.arrays.values():
        array.setflags(write=False)
    return found


def _last_round(run_id: int) -> int:
    found = runs(run_ids=[run_id], include_archived=True)
    return found[0].round if found else -1


def _read_only(arrays: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _ids(of: Sequence[RunRecord]) -> Ids:
    return tuple(run.id for run in of)


def _version(of: Sequence[RunRecord]) -> Rounds:
    """The version of these runs for the cache: their numbers change with their last stored rounds."""
    return tuple((run.id, run.round) for run in of)


def _rounds_of(of: Sequence[RunRecord], model: ModelKind, when: When) -> Rounds:
    """The best round of each run, if requested and known; others use the last."""
    if when == "last":
        return ()
    return tuple((run.id, at) for run in of if (at := best_round(run, model)) is not None)
