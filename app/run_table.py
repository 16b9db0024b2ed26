"""Every run as a row: filtered, sorted, and brought together by experiment, method, data set or status."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from app import wording
from storage import RunRecord

SORTS = {"newest": "newest first", "oldest": "oldest first", "mean": "highest mean", "lowest5": "highest lowest 5 %"}
GROUPS = {
    "none": "single runs",
    "experiment": "experiments",
    "method": "methods",
    "dataset": "data sets",
    "status": "status",
}
NUMBERS = ("mean", "lowest5", "best mean")


@dataclass(frozen=True)
class Filter:
    """Which runs are listed; what is empty lets everything through."""

    text: str = ""
    statuses: Collection[str] = field(default=())
    algorithms: Collection[str] = field(default=())
    datasets: Collection[str] = field(default=())

    def passes(self, run: RunRecord) -> bool:
        chosen = ((self.statuses, run.status), (self.algorithms, run.algorithm), (self.datasets, dataset_of(run)))
        return all(not allowed or value in allowed for allowed, value in chosen) and self._is_said(run)

    def _is_said(self, run: RunRecord) -> bool:
        """Every word occurs somewhere: in a name, a status, a hyper-parameter ``lam=12`` or the number of the run."""
        settings = " ".join(f"{name}={value}" for name, value in run.hparams.items())
        haystack = (
            f"{run.id} {run.experiment_name} {run.label} {run.algorithm} {dataset_of(run)} {run.status} {settings}"
        )
        return all(word in haystack.lower() for word in self.text.lower().split())


def data(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """A row a run; accuracies in percent, of the personalized models, in the last round and in the best one."""
    return pd.DataFrame([_row(run) for run in runs], columns=list(_COLUMNS)).astype(dict.fromkeys(NUMBERS, "float64"))


def ordered(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Sorted by a key of SORTS; runs without a value come last."""
    if by in NUMBERS:
        return table.sort_values([by, "run"], ascending=[False, False], na_position="last", ignore_index=True)
    return table.sort_values("run", ascending=by == "oldest", ignore_index=True)


def grouped(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """A row a group, in the order of the table: its runs, how they stand, accuracy over its finished runs.

    ``runs`` keeps the ids, so that a chosen row stands for all of them.
    """
    rows = []
    for name, part in table.groupby(by, sort=False):
        finished = part[part["status"] == "done"]
        means = finished["mean"].dropna()
        rows.append({
            by: name, "runs": part["run"].tolist(), "number": len(part), "done": len(finished),
            "methods": wording.names(part["method"]), "seeds": part["seed"].nunique(),
            "mean": means.mean(), "std": means.std(ddof=1) if len(means) > 1 else np.nan,
            "lowest5": finished["lowest5"].mean(), "queued": part["queued"].max(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def dataset_of(run: RunRecord) -> str:
    return str((run.config.get("dataset") or {}).get("name", ""))


_COLUMNS = (
    "run", "experiment", "method", "seed", "status", "progress", "mean", "lowest5", "best mean", "dataset", "split",
    "queued",
)  # fmt: skip


def _row(run: RunRecord) -> dict[str, object]:
    summary = run.summary or {}
    last, best = summary.get("personalized") or {}, (summary.get("best") or {}).get("personalized") or {}
    dataset = dataset_of(run)
    return {
        "run": run.id, "experiment": run.experiment_name + (" (example)" if run.example else ""),
        "method": run.label, "seed": run.seed, "status": wording.STATUS.get(run.status, run.status),
        "progress": max(run.round, 0) / max(run.rounds, 1) * 100,
        "mean": _points(last.get("mean")), "lowest5": _points(last.get("lowest5")),
        "best mean": _points(best.get("mean")),
        "dataset": wording.TITLES.get(dataset, dataset), "split": _split(run), "queued": run.created_at,
    }  # fmt: skip


def _split(run: RunRecord) -> str:
    """``40 clients, 3 classes each`` out of the words of the kicker."""
    parts = wording.kicker(run).split(" · ")[1:-1]
    return ", ".join(part.lower() for part in parts)


def _points(fraction: float | None) -> float:
    return np.nan if fraction is None else fraction * 100
