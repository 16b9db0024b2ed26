"""Every run as a row: sorted, and grouped by experiment, method, data set or status."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from app import wording
from app.data.comparison import method_name
from engine.core.registry import DATASETS
from engine.core.vocabulary import summary_at
from storage import RunRecord

GROUPS = {
    "none": "none",
    "experiment": "experiment",
    "method": "method",
    "dataset": "data set",
    "status": "status",
}
SORTS = {
    "newest": "newest first",
    "oldest": "oldest first",
    "mean": "mean, highest first",
    "lowest5": "lowest 5 %, highest first",
    "best": "best weighted mean, highest first",
    "rounds": "most rounds done",
    "experiment": "experiment",
    "method": "method",
    "seed": "seed",
    "dataset": "data set",
    "split": "split",
    "status": "status",
}
NUMBERS = ("mean", "weighted mean", "lowest5", "best")

_BY = {"newest": "run", "oldest": "run", "rounds": "progress"}  # where the column has another name
_FALLING = ("newest", "mean", "lowest5", "best", "rounds")
_COLUMNS = (
    "run",
    "experiment",
    "method",
    "seed",
    "status",
    "owner",
    "tags",
    "progress",
    "mean",
    "lowest5",
    "weighted mean",
    "best",
    "dataset",
    "split",
    "note",
    "queued",
    "experiment_id",
    "runs",
)


def data(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """A row per run; accuracies in percent, of the personalized models, in the last round.

    ``best`` is the weighted mean of the best round, which is chosen by that number: without validation data it is
    never below the last round's. ``runs`` has the ids of a row's runs.
    """
    return pd.DataFrame([_row(run) for run in runs], columns=list(_COLUMNS)).astype(dict.fromkeys(NUMBERS, "float64"))


def ordered(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Sorted by a key of SORTS, equal ones newest first; runs without a value come last."""
    column, falling = _BY.get(by, by), by in _FALLING
    keys, directions = ([column], [not falling]) if column == "run" else ([column, "run"], [not falling, False])
    return table.sort_values(keys, ascending=directions, na_position="last", ignore_index=True, kind="stable")


def grouped(table: pd.DataFrame, by: str, sort: str = "newest") -> pd.DataFrame:
    """A row per group: its runs, their status, accuracy over its finished runs.

    Sorted by the group's own accuracy if ``sort`` is one, else by its first row in ``table``.
    """
    key = "experiment_id" if by == "experiment" else by  # two experiments may have one name
    rows = pd.DataFrame([_group(part, by) for _, part in table.groupby(key, sort=False)])
    column = _BY.get(sort, sort)
    if column in NUMBERS and len(rows):
        rows = rows.sort_values(column, ascending=False, na_position="last", ignore_index=True, kind="stable")
    return rows


def dataset_of(run: RunRecord) -> str:
    return str((run.config.get("dataset") or {}).get("name", ""))


def tags_of(run: RunRecord) -> tuple[str, ...]:
    """The run's own tags, then those of its experiment."""
    return tuple(dict.fromkeys((*run.tags, *run.experiment_tags)))


def _origin(run: RunRecord) -> str:
    """Tells experiments of one name apart that were computed here, imported, or shipped."""
    if run.example:
        return " (example)"
    return " (imported)" if (run.provenance or {}).get("imported") else ""


def _row(run: RunRecord) -> dict[str, object]:
    last, best = summary_at(run.summary, "personalized"), summary_at(run.summary, "personalized", "best")
    dataset = dataset_of(run)
    return {
        "run": run.id,
        "experiment": run.experiment_name + _origin(run),
        "method": method_name(run.label, run.algorithm),
        "seed": run.seed,
        "status": wording.STATUS.get(run.status, run.status),
        "progress": max(run.round, 0) / max(run.rounds, 1) * 100,
        "mean": _points(last.get("mean")),
        "lowest5": _points(last.get("lowest5")),
        "weighted mean": _points(last.get("weighted_mean")),
        "best": _points(best.get("weighted_mean")),
        "dataset": DATASETS.short_title(dataset),
        "split": _split(run),
        "owner": run.owner,
        "tags": " ".join(tags_of(run)),
        "note": " · ".join(filter(None, (run.note, run.experiment_note))),
        "queued": run.created_at,
        "experiment_id": run.experiment_id,
        "runs": [run.id],
    }


def _group(part: pd.DataFrame, by: str) -> dict[str, object]:
    finished = part[part["status"] == wording.STATUS["done"]]
    means = finished["mean"].dropna()
    names = {"method": "methods", "dataset": "datasets"}
    others = {many: wording.names(part[one]) for one, many in names.items() if one != by}
    return {
        by: part[by].iloc[0],
        "number": len(part),
        "done": len(finished),
        "mean": means.mean(),
        "std": means.std(ddof=1) if len(means) > 1 else np.nan,
        **{name: finished[name].mean() for name in ("lowest5", "weighted mean", "best")},
        **others,
        "seeds": part["seed"].nunique(),
        "queued": part["queued"].max(),
        "runs": part["run"].tolist(),
    }


def _split(run: RunRecord) -> str:
    """``40 clients, 3 classes each``."""
    return ", ".join(wording.setting(run).split(" · ")[1:-1])


def _points(fraction: float | None) -> float:
    return np.nan if fraction is None else fraction * 100
