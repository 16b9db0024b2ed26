"""What the pages read, as records and tables. Cached by run and last round, so that a finished run is read once.

Every function may be called before the database exists: there is nothing to see then. ``problem()`` says why.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st

from storage import EngineRecord, ExperimentNotFound, ExperimentRecord, RunRecord, Status, StorageError, Store
from storage import store_from_env as _store_from_env

ROOT = Path(__file__).resolve().parent.parent
Model = Literal["personalized", "global"]
When = Literal["last", "best"]
LOOK_AGAIN_S = 3.0  # a database that was there may go away
SUMMARY_NAMES = ("mean", "weighted_mean", "lowest5", "top5", "std", "cv")
_RUN = ["run", "label", "algorithm", "seed"]


def store() -> Store:
    """The database of ``DATABASE_URL``: one Store a process and address."""
    return _open(os.environ.get("DATABASE_URL", ""))


def problem() -> str | None:
    """Why nothing can be read now, in words for the reader; None when all is well."""
    try:
        _prepare(os.environ.get("DATABASE_URL", ""))
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
    *, experiment_ids: Sequence[int] | None = None, run_ids: Sequence[int] | None = None,
    statuses: Sequence[Status] | None = None, include_archived: bool = False, limit: int | None = None,
    newest_first: bool = False, with_partition: bool = False,
) -> list[RunRecord]:
    """Runs that meet all conditions, in the order in which they were asked for."""
    if problem():
        return []
    return store().queue.runs(
        experiment_ids=experiment_ids, run_ids=run_ids, statuses=statuses, include_archived=include_archived,
        limit=limit, newest_first=newest_first, with_partition=with_partition,
    )


def counts() -> dict[str, int]:
    """How many runs there are of each status that occurs."""
    return {} if problem() else store().queue.counts()


def engines() -> list[EngineRecord]:
    """Engines that were heard of in the last seconds."""
    return [] if problem() else store().engines.list()


def partition(run_id: int) -> dict[str, Any] | None:
    """How the data lies among the clients of a run: ``train_sizes``, ``test_sizes``, ``class_counts``, ..."""
    found = runs(run_ids=[run_id], include_archived=True, with_partition=True)
    return found[0].partition if found else None


def final_clients(run_ids: Sequence[int], model: Model = "personalized", when: When = "last") -> pd.DataFrame:
    """[run, label, algorithm, seed, client, accuracy, test_size]; clients without test samples are left out."""
    parts = []
    for run in runs(run_ids=list(run_ids), include_archived=True):
        at = best_round(run, model) if when == "best" else None
        part = _clients(store().url, run.id, run.round, model, at)
        parts.append(_labelled(part, run))
    return _joined(parts, [*_RUN, "client", "accuracy", "test_size"])


def unseen_clients(run_ids: Sequence[int]) -> pd.DataFrame:
    """Like final_clients, of the clients held out of training, under their numbers before that."""
    found = runs(run_ids=list(run_ids), include_archived=True)
    parts = [_labelled(_unseen(store().url, run.id, run.round), run) for run in found]
    return _joined(parts, [*_RUN, "client", "accuracy", "test_size"])


def best_round(run: RunRecord, model: Model = "personalized") -> int | None:
    """The evaluated round with the largest weighted mean, or None where there is none."""
    best = ((run.summary or {}).get("best") or {}).get(model)
    return best["round"] if best else None


def scalar_series(run_ids: Sequence[int], names: Sequence[str]) -> pd.DataFrame:
    """[run, label, algorithm, seed, round, name, value] of stored scalars such as ``personalized.mean``."""
    parts = [
        _labelled(_scalars(store().url, run.id, run.round, tuple(names)), run)
        for run in runs(run_ids=list(run_ids), include_archived=True)
    ]
    return _joined(parts, [*_RUN, "round", "name", "value"])


def mean_series(run_ids: Sequence[int], names: Sequence[str]) -> pd.DataFrame:
    """Like scalar_series, of per-client values such as ``train_loss``: their mean over the clients that have one."""
    parts = [
        _labelled(_means(store().url, run.id, run.round, tuple(names)), run)
        for run in runs(run_ids=list(run_ids), include_archived=True)
    ]
    return _joined(parts, [*_RUN, "round", "name", "value"])


def client_series(run_id: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(rounds [R], values [R, N]) of one per-client array such as ``personalized.accuracy``."""
    return _array(store().url, run_id, _last_round(run_id), name)


def clusters(run_id: int) -> tuple[np.ndarray, np.ndarray]:
    """(rounds [R], labels [R, N]); both empty where the method has no clusters."""
    return _clusters(store().url, run_id, _last_round(run_id))


def summaries(run_ids: Sequence[int]) -> pd.DataFrame:
    """A row a run, model and rule: [run, label, algorithm, seed, status, model, when, round, mean, ..., cv]."""
    rows = []
    for run in runs(run_ids=list(run_ids), include_archived=True):
        summary = run.summary or {}
        for model in ("personalized", "global"):
            best = (summary.get("best") or {}).get(model)
            at_best = (best or {}).get("round")
            for when, values, at in (("last", summary.get(model), run.round), ("best", best, at_best)):
                if values:
                    numbers = {name: _number(values.get(name)) for name in SUMMARY_NAMES}
                    rows.append({
                        "run": run.id, "label": run.label, "algorithm": run.algorithm, "seed": run.seed,
                        "status": run.status, "model": model, "when": when, "round": at, **numbers,
                    })
    return pd.DataFrame(rows, columns=[*_RUN, "status", "model", "when", "round", *SUMMARY_NAMES])


@st.cache_resource(show_spinner=False)
def _open(url: str) -> Store:
    return _store_from_env(ROOT) if not url else Store(url)


@st.cache_resource(show_spinner=False, ttl=LOOK_AGAIN_S)
def _prepare(url: str) -> bool:
    """When it has gone well it is not asked again for a moment; an error is not kept."""
    _open(url).ensure_schema()
    return True


@st.cache_data(show_spinner=False, max_entries=2000)
def _clients(url: str, run_id: int, last_round: int, model: str, at: int | None) -> pd.DataFrame:
    accuracy = store().metrics.array_at(run_id, f"{model}.accuracy", at)
    if accuracy is None:
        return pd.DataFrame(columns=["client", "accuracy", "test_size"])
    sizes = (store().queue.get(run_id).partition or {}).get("test_sizes") or [math.nan] * len(accuracy)
    table = pd.DataFrame({"client": np.arange(len(accuracy)), "accuracy": accuracy, "test_size": sizes})
    return table[np.isfinite(accuracy)].reset_index(drop=True)


@st.cache_data(show_spinner=False, max_entries=2000)
def _unseen(url: str, run_id: int, last_round: int) -> pd.DataFrame:
    accuracy = store().metrics.array_at(run_id, "unseen.accuracy")
    held_out = (store().queue.get(run_id).partition or {}).get("unseen")
    if accuracy is None or held_out is None:
        return pd.DataFrame(columns=["client", "accuracy", "test_size"])
    table = pd.DataFrame(
        {"client": held_out["clients"], "accuracy": accuracy, "test_size": held_out["test_sizes"]}
    )
    return table[np.isfinite(accuracy)].reset_index(drop=True)


@st.cache_data(show_spinner=False, max_entries=2000)
def _scalars(url: str, run_id: int, last_round: int, names: tuple[str, ...]) -> pd.DataFrame:
    curves = store().metrics.scalars([run_id], names)[run_id]
    parts = [pd.DataFrame({"round": at, "name": name, "value": values}) for name, (at, values) in curves.items()]
    return _joined(parts, ["round", "name", "value"])


@st.cache_data(show_spinner=False, max_entries=500)
def _means(url: str, run_id: int, last_round: int, names: tuple[str, ...]) -> pd.DataFrame:
    parts = []
    for name in names:
        at, values = store().metrics.array(run_id, name)
        parts.append(pd.DataFrame({"round": at, "name": name, "value": mean_of_known(values)}))
    return _joined(parts, ["round", "name", "value"])


@st.cache_data(show_spinner=False, max_entries=50)
def _array(url: str, run_id: int, last_round: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    return store().metrics.array(run_id, name)


@st.cache_data(show_spinner=False, max_entries=200)
def _clusters(url: str, run_id: int, last_round: int) -> tuple[np.ndarray, np.ndarray]:
    return store().metrics.clusters(run_id)


def mean_of_known(values: np.ndarray) -> np.ndarray:
    """[R, N] -> [R]: the mean over the clients that have a value; NaN where none has."""
    known = np.isfinite(values)
    n = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1, dtype=np.float64)
    return np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)


def _last_round(run_id: int) -> int:
    found = runs(run_ids=[run_id], include_archived=True)
    return found[0].round if found else -1


def _labelled(table: pd.DataFrame, run: RunRecord) -> pd.DataFrame:
    head = pd.DataFrame({"run": run.id, "label": run.label, "algorithm": run.algorithm, "seed": run.seed},
                        index=table.index)  # fmt: skip
    return pd.concat([head, table], axis=1)


def _joined(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=columns)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
