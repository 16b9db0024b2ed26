"""Accuracy of each client's model on other clients' data: recorded during training, or measured afterwards."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from app.access import permits
from app.actions.analyze import perform, show_refusal
from app.compare.view import View
from app.components.timed import timed
from app.data import allowed_paths, queries
from app.data.averages import mean_of_known
from app.wording import NO_WORKER, plain, plural
from engine.core.errors import CheckpointInvalid
from storage import AnalysisRecord, ArtifactDamaged, StorageError
from storage.analyses import Analyses

KIND = "trade_off"
COMMON, OTHERS = "the common test set", "the test data of all other clients"
REFRESH_S = 2.0


def elsewhere(view: View) -> tuple[pd.Series, str]:
    """(run -> mean accuracy of its clients' models beyond their own data, a description of that data)."""
    recorded = view.means("common_accuracy")
    if len(recorded):
        return recorded, COMMON
    measured = _measured(view, _requests(view)) if view.model == "personalized" else {}
    return pd.Series(measured, dtype=float), OTHERS


def offer(view: View) -> None:
    """A button that measures runs without these numbers from their models, or its progress."""
    show_refusal()
    requests = _requests(view)
    waiting = [a for a in requests if a.is_active]
    if waiting:
        underway([a.id for a in waiting])
        return
    for error in sorted({a.error for a in requests if a.status == "failed" and a.error}):
        st.caption(plain(f"{plural(sum(a.error == error for a in requests), 'run')} could not be measured: {error}"))
    measured = _measured(view, requests)
    missing = [run_id for run_id, run in view.runs.items() if run_id not in measured and run.is_finished]
    missing = [run_id for run_id in missing if allowed_paths.problem_of(view.runs[run_id]) is None]
    allowed = permits.theirs("analyze", list(view.runs.values()))
    missing = [run_id for run_id in missing if run_id in allowed]
    if not missing:
        return
    evaluations = sum(len(_sizes(view, run_id)) * sum(_sizes(view, run_id)) for run_id in missing)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Measure on other clients' data", key="measure_elsewhere", on_click=_request, args=(view, missing))
        st.caption(
            f"{plural(len(missing), 'run')}: the stored model of each client on the test data of all others, "
            f"{plural(evaluations, 'prediction')}. Requires the stored models and a running worker."
        )


@timed(REFRESH_S)
def underway(ids: Sequence[int]) -> None:
    """The number of remaining measurements; the page is redrawn when there are none."""
    left = {a.id for a in queries.store().analyses.active()} & set(ids)
    if not left:
        st.rerun()
    hint = "" if queries.engines() else f" {NO_WORKER}"
    st.progress(1 - len(left) / len(ids), text=f"Measuring: {plural(len(left), 'run')} left.{hint}")


def _measured(view: View, requests: Sequence[AnalysisRecord]) -> dict[int, float]:
    """run -> mean over the models of the clients behind its accuracy, for analyses that are done."""
    found, clients = {}, view.clients()
    for analysis in requests:
        if analysis.status == "done":
            with suppress(ArtifactDamaged, CheckpointInvalid):  # then it is not known, and can be measured again
                others = queries.findings(analysis).arrays["others"]
                own = clients.loc[clients["run"] == analysis.run_id, "client"].to_numpy(int)  # evaluated and benign
                found[analysis.run_id] = float(mean_of_known(others[None, own])[0])
    return found


def _requests(view: View) -> list[AnalysisRecord]:
    """The measurements requested for the models of the chosen round."""
    found = queries.store().analyses.for_runs(list(view.runs), KIND)
    return [analysis for analysis in found if analysis.params == _options(view)]


def _options(view: View) -> dict[str, Any]:
    return {} if view.when == "last" else {"which": view.when}


def _request(view: View, run_ids: Sequence[int]) -> None:
    for run_id in run_ids:
        with suppress(StorageError):  # the run was deleted meanwhile, which the page reports
            perform(f"Analyze ({KIND})", run_id, partial(_request_one, view, run_id))


def _request_one(view: View, run_id: int, analyses: Analyses) -> None:
    request = analyses.request(run_id, KIND, _options(view))
    if request.status == "done":  # its findings could not be read
        analyses.recompute(request.id)


def _sizes(view: View, run_id: int) -> list[int]:
    return (view.runs[run_id].partition or {}).get("test_sizes") or []
