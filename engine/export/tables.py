"""Runs as tidy tables, for notebooks, CSV and Parquet."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.config.study import DEFAULTS
from engine.core.results import RoundResult, RunResult
from engine.core.vocabulary import COSTS, MODEL_KINDS, UNSEEN, add_prefix, summary_at
from engine.metrics import of_benign

Format = Literal["csv", "parquet"]
_FORMULA = re.compile(r"[=+\-@\t\r\n]")  # how text begins that spreadsheets compute
_SIGNED = re.compile(r"[+-][\d.,]+(e[+-]?\d+)?( ?%)?")
COLUMNS = ("experiment", "algorithm", "label", "seed", "status")  # of a run; ``split`` is before ``seed`` if it differs
GROUPS = (*MODEL_KINDS, UNSEEN)  # what a client's values may be of


def rounds_table(runs: Iterable[RunResult]) -> pd.DataFrame:
    """One row per run and round: all scalars, and means over benign clients of values without a summary.

    Scalars: ``personalized.mean``, ``seconds``, ...; client means: ``personalized.loss``, ``train_loss``, ...

    NaN in rounds that were not evaluated; ``train_loss`` is the mean over the participants. ``status`` is that of the
    run: a run that failed and its retry have the same experiment, label and seed.
    """
    rows = [
        {
            **_identity(run),
            "status": run.status,
            "round": int(r.round),
            "participants": len(r.cohort),
            **r.scalars,
            **_client_means(r, run.partition),
        }
        for run in runs
        for r in run.rounds
    ]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=[*COLUMNS, "round", "participants"])


def clients_table(runs: Iterable[RunResult]) -> pd.DataFrame:
    """One row per run, round and client: accuracies, losses, training loss, cluster; NaN if not measured.

    ``status`` is that of the run, as in ``rounds_table``.
    """
    frames = [frame for run in runs for frame in _client_frames(run)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*COLUMNS, "round", "client"])


def summary_table(runs: Iterable[RunResult]) -> pd.DataFrame:
    """One row per experiment and label: summaries of the last round and total costs, averaged over seeds.

    Each has its mean under its name and the sample standard deviation under ``<name>.std``. Bytes and gradient
    evaluations are totals over the participants, ``seconds`` cover training and aggregation. Only runs that are done
    count, in ``seeds`` as well; ``diverged`` is the number of those that diverged. If the data have seeds of their own,
    the seeds of each split are averaged first, and the deviation is that over ``splits``. In a study, a run that chose
    the defaults also counts as ``<label> defaults`` if another split has such runs.
    """
    runs = _with_shared_defaults(tuple(runs))
    table = pd.DataFrame(
        [{**_identity(run), "status": run.status, **_last_summaries(run), **_costs(run)} for run in runs]
    )
    key, numbers = ["experiment", "label"], [c for c in table if str(c).startswith(GROUPS) or c in COSTS]
    counted = [name for name in ("split", "seed") if name in table]
    table[[*counted, *numbers]] = table[[*counted, *numbers]].where(table["status"] == "done")
    table["diverged"] = table["status"] == "diverged"
    by = table.groupby(key, sort=False)
    by_split = table.groupby([*key, "split"], sort=False, dropna=False) if "split" in table else None
    blocks = table.set_index(key) if by_split is None else by_split[numbers].mean()
    values = blocks.groupby(key, sort=False)[numbers].agg(["mean", "std"])
    values.columns = [name if what == "mean" else f"{name}.std" for name, what in values.columns]
    counts = {f"{name}s": by[name].nunique() for name in counted}
    return values.assign(**counts, diverged=by["diverged"].sum()).reset_index()


def _with_shared_defaults(runs: Sequence[RunResult]) -> list[RunResult]:
    labels = {(run.experiment, run.label) for run in runs}
    chose_defaults = (run for run in runs if run.study and run.study["role"] == "final" and run.study["trial"] == 0)
    also = (replace(run, label=run.label + DEFAULTS) for run in chose_defaults if not run.label.endswith(DEFAULTS))
    return [*runs, *(run for run in also if (run.experiment, run.label) in labels)]


def write_tables(path: Path, runs: Iterable[RunResult], format: Format) -> tuple[Path, Path]:
    """Writes the rounds to ``path`` and the clients next to it as ``<name>-clients``."""
    runs, clients = tuple(runs), clients_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for table, target in ((rounds_table(runs), path), (clients_table(runs), clients)):
        if format == "csv":
            without_formulas(table).to_csv(target, index=False)
        else:
            table.to_parquet(target, index=False)
    return path, clients


def clients_path(path: Path) -> Path:
    """The file of the clients beside that of the rounds."""
    return path.with_stem(f"{path.stem}-clients")


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """The table for a CSV file: text that a spreadsheet would compute gets an apostrophe before it."""
    safe = table.rename(columns=_without_formula)
    for place, kind in enumerate(safe.dtypes):
        if pd.api.types.is_object_dtype(kind) or isinstance(kind, pd.StringDtype | pd.CategoricalDtype):
            cells = [_without_formula(value) for value in safe.iloc[:, place]]
            safe.isetitem(place, pd.Series(cells, index=safe.index, dtype=object))  # whole numbers stay whole
    return safe


def _without_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _SIGNED.fullmatch(value) else value


def _identity(run: RunResult) -> dict[str, Any]:
    """Experiment, algorithm, label and seed; also the split, if the data have a seed of their own."""
    split = {} if run.data_seed is None else {"split": run.data_seed}
    return {"experiment": run.experiment, "algorithm": run.algorithm, "label": run.label, **split, "seed": run.seed}


def _last_summaries(run: RunResult) -> dict[str, float]:
    """The client summaries of the last round: ``personalized.mean`` and so on."""
    return {name: v for group in GROUPS for name, v in add_prefix(group, summary_at(run.summary, group)).items()}


def _costs(run: RunResult) -> dict[str, float]:
    return {name: sum(r.scalars[name] for r in run.rounds) for name in COSTS}


def _client_means(r: RoundResult, partition: Mapping[str, Any] | None) -> dict[str, float]:
    """Means over benign clients, but not of accuracies, whose means are scalars already."""
    summarized = {f"{group}.accuracy" for group in GROUPS}
    malicious = (partition or {}).get("malicious")
    return {
        name: _nanmean(values if name.startswith(UNSEEN) else of_benign(values, malicious))
        for name, values in r.arrays.items()
        if _is_per_client(name) and values.ndim == 1 and name not in summarized
    }


def _is_per_client(name: str) -> bool:
    return name == "train_loss" or name.startswith(GROUPS)


def _nanmean(values: np.ndarray) -> float:
    """The mean over clients with a finite value; NaN if there is none."""
    known = values[np.isfinite(values)]
    return float(known.mean(dtype=np.float64)) if len(known) else float("nan")


def _client_frames(run: RunResult) -> Iterator[pd.DataFrame]:
    for r in run.rounds:
        columns = {n: a for n, a in r.arrays.items() if n == "train_loss" or n.startswith(MODEL_KINDS)}
        if r.clusters is not None:
            columns["cluster"] = r.clusters
        columns = {n: a for n, a in columns.items() if a.ndim == 1}
        if columns:
            N = max(len(a) for a in columns.values())
            of_run = {**_identity(run), "status": run.status, "round": int(r.round)}
            yield pd.DataFrame({**of_run, "client": np.arange(N), **columns})
