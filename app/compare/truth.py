"""The panel on generated data, where the truth is known: who errs least, as the clients lie further apart."""

from typing import Any

import pandas as pd
import streamlit as st

from app import address, queries
from app.charts import error_over_R
from app.compare.view import View
from app.comparison import REFERENCES, method_name
from app.components import page

ERRORS = {"total": "Of the models as trained", "statistical": "Of the exact solution"}
STATISTICAL = {"personalized": "diagnostics.statistical_error_local", "global": "diagnostics.statistical_error_global"}


@st.fragment
def errors(view: View, clients: pd.DataFrame) -> None:
    """Drawn for runs on generated data of two spreads R or more."""
    rows = pd.DataFrame([_row(run) for run in view.runs.values() if run.config["dataset"].get("R") is not None])
    if rows.empty or rows["R"].nunique() < 2:
        return
    total = queries.final_means(list(rows["run"]), f"{view.model}.total_error", view.model, view.when)
    if total.empty:
        return
    page.section("When does sharing pay?")
    solved = _solved(view)
    shown = address.switch("Error", ERRORS, "error", "total") if len(solved) else "total"
    rows["error"] = rows["run"].map(total)
    if shown == "statistical":
        rows["error"] = rows["run"].map(solved).where(~rows["algorithm"].isin(REFERENCES), rows["error"])
    points = error_over_R.data(rows)
    finding = error_over_R.finding(points)
    whose = "each client's model to its own truth" if view.model == "personalized" else "the global model to the mean"
    solution = " Methods: at the exact minimiser of what they fit; FedAvg and LocalTrain: as trained."
    page.chart(
        error_over_R.figure(points, "squared error, log scale"), points, key="error_over_R", name="error-over-R",
        title="Distance to the truth against R; ★ least", alt=finding,
        caption=f"{finding} Squared distance of {whose}, whisker: ± over seeds."
                f"{solution if shown == 'statistical' else ''}",
    )  # fmt: skip


def _row(run: Any) -> dict[str, Any]:
    return {
        "run": run.id, "method": method_name(run.label, run.algorithm), "algorithm": run.algorithm, "seed": run.seed,
        "R": float(run.config["dataset"]["R"]),
    }  # fmt: skip


def _solved(view: View) -> pd.Series:
    """run -> the error of the converged solution, where the method records it."""
    found = queries.scalar_series(list(view.runs), [STATISTICAL[view.model]])
    return found.groupby("run")["value"].last().dropna() if len(found) else pd.Series(dtype=float)
