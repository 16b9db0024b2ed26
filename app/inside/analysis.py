"""An analysis on the screen: the button that queues it, its progress, its error or its findings."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zlib import crc32

import streamlit as st

from app.access import permits
from app.actions.analyze import perform, show_refusal
from app.components import page
from app.data import allowed_paths, queries
from app.inside.view import RunView
from app.state.fragments import fragment
from app.wording import NO_WORKER, duration, percent, plain, plural, seconds
from engine.core.errors import CheckpointInvalid
from engine.core.findings import Findings
from engine.core.vocabulary import MODELS_OF
from storage import AnalysisNotFound, AnalysisRecord, ArtifactDamaged, ArtifactRecord, RunRecord, StorageError
from storage.analyses import Analyses

REFRESH_S = 1.0


def findings(view: RunView, kind: str, options: dict[str, Any], *, verb: str, cost: str) -> Findings | None:
    """The findings of the analysis ``kind`` with ``options`` for the view's run; None while there are none.

    Until then the page shows a button ``verb`` with its ``cost`` in words ("1,681 evaluations, about 5 s"), the
    progress, or the error. ``options`` has every option that differs from its default: it is the key of the findings.
    """
    return AnalysisRequest(view.run, kind, options, verb, cost).show()


@dataclass(frozen=True)
class AnalysisRequest:
    """One request for an analysis of a run's models, and its state."""

    run: RunRecord
    kind: str
    options: dict[str, Any]
    verb: str
    cost: str

    @property
    def key(self) -> str:
        """The key of its widgets: different for different options."""
        options = json.dumps(self.options, sort_keys=True, default=str)
        return f"analysis_{self.run.id}_{self.kind}_{crc32(options.encode()):x}"

    def show(self) -> Findings | None:
        show_refusal()
        store = queries.store()
        found = store.analyses.find(self.run.id, self.kind, self.options)
        artifact = store.artifacts.get(found.artifact_id) if found and found.artifact_id else None
        if found is not None and artifact is not None:
            return self.done(found, artifact)
        if found is not None and found.is_active:
            waiting(self.run, found.id, self.key)
        elif found is not None and found.status in ("failed", "cancelled"):
            self.offer_retry(found)
        else:
            self.offer()
        return None

    def submit(self) -> None:
        if allowed_paths.problem_of(self.run):
            return
        with suppress(StorageError):  # the run was deleted meanwhile, which the page reports
            perform(f"Analyze ({self.kind})", self.run.id, self._request)

    def _request(self, analyses: Analyses) -> None:
        analyses.request(self.run.id, self.kind, self.options)

    def offer(self) -> None:
        """The button with its cost, or why there is none."""
        if lacks_models(self.run, self.options):
            say_what_is_missing(self.run)
            return
        if reason := allowed_paths.problem_of(self.run):
            st.caption(plain(f"Requires the run's data. {reason}"))
            return
        with st.container(horizontal=True, vertical_alignment="center"):
            reason = permits.why_not("analyze", [self.run])
            st.button(self.verb, key=f"{self.key}_ask", on_click=self.submit, disabled=reason is not None)
            st.caption(plain(reason or self.cost))

    def offer_retry(self, found: AnalysisRecord) -> None:
        if found.status == "failed":
            st.warning(plain(f"The analysis failed: {found.error or 'no reason was recorded'}"))
        with st.container(horizontal=True, vertical_alignment="center"):
            reason = permits.why_not("analyze", [self.run])
            st.button("Try again", key=f"{self.key}_again", on_click=self.submit, disabled=reason is not None)
            st.caption(plain(reason or (self.cost if found.status == "failed" else f"Cancelled. {self.cost}")))

    def done(self, found: AnalysisRecord, artifact: ArtifactRecord) -> Findings | None:
        button: dict[str, Any] = {
            "on_click": recompute,
            "args": (self.run.id, found.id),
            "key": f"{self.key}_anew",
            "disabled": (allowed_paths.problem_of(self.run) or permits.why_not("analyze", [self.run])) is not None,
        }
        try:
            answer = queries.findings(found)
        except (ArtifactDamaged, CheckpointInvalid) as error:
            st.warning(plain(f"The stored results can no longer be read: {error}"))
            st.button("Recompute", **button)
            return None
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(plain(origin(found, artifact)), width="content")
            st.button("Recompute", type="tertiary", **button)
        return answer


def recompute(run_id: int, analysis_id: int) -> None:
    perform("Recompute an analysis", run_id, lambda analyses: analyses.recompute(analysis_id))


def cancel(run_id: int, analysis_id: int) -> None:
    perform("Cancel an analysis", run_id, lambda analyses: analyses.cancel(analysis_id), adds="nothing")


@partial(fragment, run_every=REFRESH_S)
def waiting(run: RunRecord, analysis_id: int, key: str) -> None:
    """The state of a queued or running analysis, each second; the page is redrawn when it has ended."""
    analyses = queries.store().analyses
    try:
        found = analyses.get(analysis_id)
    except AnalysisNotFound:
        st.rerun()
    if not found.is_active:
        st.rerun()
    if found.status == "running":
        st.progress(found.progress, text=standing(found, datetime.now(UTC)))
    else:
        st.caption(plain(in_line(found)))
    is_disabled = bool(found.control) or permits.why_not("analyze", [run]) is not None
    st.button("Cancel", key=f"{key}_cancel", on_click=cancel, args=(run.id, analysis_id), disabled=is_disabled)


def standing(found: AnalysisRecord, at: datetime) -> str:
    """``41 % · 6 s so far``."""
    so_far = f"{duration((at - (found.started_at or at)).total_seconds())} so far"
    if found.control:
        return f"Cancelling · {so_far}"
    share = percent(found.progress, 0) if found.progress else "Loading data"
    again = f" · attempt {found.attempts}" if found.attempts > 1 else ""
    return f"{share} · {so_far}{again}"


def in_line(found: AnalysisRecord) -> str:
    """Why a queued analysis has not started."""
    if not queries.engines():
        return NO_WORKER
    before = sum(other.status == "queued" and other.id < found.id for other in queries.store().analyses.active())
    behind = f", behind {plural(before, 'other analysis', 'other analyses')}" if before else ""
    return f"Waiting for a slot{behind}; analyses run before queued runs."


def origin(found: AnalysisRecord, artifact: ArtifactRecord) -> str:
    """``Computed in 3.2 s from the models of round 50``."""
    took = ""
    if found.started_at and found.finished_at:
        took = f" in {seconds((found.finished_at - found.started_at).total_seconds())}"
    return f"Computed{took} from the models of round {artifact.round}"


def lacks_models(run: RunRecord, options: Mapping[str, Any]) -> bool:
    which = MODELS_OF["best" if options.get("which") == "best" else "last"]
    return queries.store().artifacts.latest(run.id, which) is None


def say_what_is_missing(run: RunRecord) -> None:
    """Why there are no models to analyze, and a link to the run in the Library, where it can be run again."""
    st.caption(plain(without_models(run)))
    if not run.is_active and run.status != "paused":
        page.link("library", "This run in the Library", runs=run.id)


def without_models(run: RunRecord) -> str:
    """Why there are no models to analyze."""
    if run.is_active or run.status == "paused":
        return f"Requires the run's models, which are stored when it ends; it is {run.status} now."
    if run.example or (run.provenance or {}).get("imported"):
        why = "this run was computed elsewhere and imported without them"
    elif run.status in ("failed", "cancelled"):
        why = f"{run.status} runs store none"
    else:
        why = "they were too large to store or have been deleted"
    return f"Requires the run's models, but {why}. Rerun it from the Library, then try again."
