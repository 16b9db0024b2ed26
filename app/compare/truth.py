"""The panels on heterogeneity: each method's error by distance of the true models and by classes per client."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from app.charts import error_over_R
from app.compare import tables
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown, with_finding
from app.data import config_fields
from app.data.column_heads import Head
from app.data.comparison import REFERENCES
from app.state import url_state
from app.state.choice import Choice, Choices
from app.wording import capital
from engine.core.registry import DATASETS, MODELS
from storage import RunRecord

SPREAD, CLASSES = "dataset.R", "partition.classes_per_client"
STATISTICAL = {"personalized": "diagnostics.statistical_error_local", "global": "diagnostics.statistical_error_global"}


HEADING = "When does sharing help?"
SHOWN = Choice("Error", {"total": "Trained models", "statistical": "Exact solution"}, "error", "total")


@url_state.fragment
def errors(view: View, first: str = SHOWN.default) -> None:
    """Drawn for runs on generated data of two spreads R or more."""
    if (rows := _distances(view)) is None:
        return
    page.section(HEADING)
    solved = view.last(STATISTICAL[view.model])  # the error of the converged solution, where the method records it
    page.show(_by_spread(view, rows, solved, replace(SHOWN, default=first).switch() if len(solved) else "total"))


@url_state.fragment
def errors_over_classes(view: View) -> None:
    """Drawn for runs measured on a common test set whose clients have two numbers of classes or more."""
    for one in _over_classes(view):
        page.section(one.heading)
        page.show(one.figures[0])


def parts(view: View, choices: Choices) -> Iterator[Part]:
    if (rows := _distances(view)) is not None:
        solved = view.last(STATISTICAL[view.model])
        shown = SHOWN.made_in(choices) if len(solved) else "total"
        yield Part(HEADING, (_by_spread(view, rows, solved, shown),))
    yield from _over_classes(view)


def _distances(view: View) -> pd.DataFrame | None:
    rows = _rows([run for run in view.runs.values() if run.config["dataset"].get("R") is not None], SPREAD, "R")
    if rows.empty or rows["R"].nunique() < 2:
        return None
    rows["error"] = rows["run"].map(view.means("total_error")).astype(float)
    return None if rows["error"].isna().all() else rows


def _by_spread(view: View, rows: pd.DataFrame, solved: pd.Series, shown: str) -> Shown:
    if shown == "statistical":
        exact = rows["run"].map(solved).where(~rows["algorithm"].isin(REFERENCES), rows["error"])
        rows = rows.assign(error=exact)
    points = error_over_R.data(rows)
    whose = (
        "each client's model from its true model"
        if view.model == "personalized"
        else "the global model from the mean of the true models"
    )
    solution = " Methods: at the exact minimizer of their objective; FedAvg and LocalTrain: as trained."
    return with_finding(
        error_over_R.figure(points, "squared error, log scale"),
        tables.for_download(points),
        error_over_R.finding(points),
        key="error_over_R",
        name="error-over-R",
        title="Distance from the true model by R; ★ lowest",
        also=f"Squared distance of {whose}, whisker: {view.whisker}.{solution if shown == 'statistical' else ''}",
        heads={"seeds": Head(capital(view.spread))},
    )


def _over_classes(view: View) -> Iterator[Part]:
    """One part for each model and data set."""
    of = error_over_R.CLASSES
    known = view.means("common_accuracy")
    for model, runs in _by_model([view.runs[run_id] for run_id in known.index]).items():
        rows = _rows(runs, CLASSES, of.symbol)
        points = error_over_R.data(rows.assign(error=100 * (1 - rows["run"].map(known))), of)
        if points[of.symbol].nunique() < 2:
            continue
        shown = with_finding(
            error_over_R.figure(points, "error on the common test set, %, log scale", of),
            tables.for_download(points),
            error_over_R.finding(points, of),
            key=f"errors_{model}",
            name=f"error-over-classes-{model}",
            title="Error on the common test set by classes per client; ★ lowest",
            also=f"In percent, mean over the clients' models of the {view.rule}; whisker: {view.whisker}.",
            heads={"seeds": Head(capital(view.spread))},
        )
        yield Part(f"When does sharing help with {model}?", (shown,))


def _by_model(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """``MLR on MNIST`` -> its runs with a number of classes for each client."""
    found: dict[str, list[RunRecord]] = {}
    for run in runs:
        if run.config["partition"]["name"] == "classes_per_client":
            dataset, model = run.config["dataset"]["name"], run.config["model"]["name"]
            found.setdefault(f"{MODELS.short_title(model)} on {DATASETS.short_title(dataset)}", []).append(run)
    return found


def _rows(runs: Sequence[RunRecord], axis: str, column: str) -> pd.DataFrame:
    """[run, method, algorithm, split, seed, <column>]: each run's value of the field ``axis``."""
    named = config_fields.names_along(runs, axis)
    return pd.DataFrame(
        [
            {
                "run": run.id,
                "method": named[run.id],
                "algorithm": run.algorithm,
                "split": run.split,
                "seed": run.seed,
                column: float(config_fields.flat(run.config)[axis]),
            }
            for run in runs
        ]
    )
