"""An analysis on the screen: the button that queues it, its progress, what went wrong, and in the end its findings."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import streamlit as st

from app.data import allowed_paths, queries
from app.inside.view import RunView
from app.wording import duration, percent, plain, plural, seconds
from engine.core.errors import CheckpointInvalid
from engine.core.findings import Findings
from storage import AnalysisNotFound, AnalysisRecord, ArtifactDamaged, ArtifactRecord, RunRecord, StorageError

LOOK_S = 1.0
KEPT = {"last": "model-last", "best": "model-best"}  # the artifacts that analyses work on
NO_ENGINE = "No engine is running, so nobody computes it: start the app with python -m app."


def findings(view: RunView, kind: str, options: dict[str, Any], *, verb: str, cost: str) -> Findings | None:
    """What the analysis ``kind`` with ``options`` has found in the view's run; None while there is nothing yet.

    Then the reader sees a button ``verb`` with its ``cost`` in words ("1,681 evaluations, some 5 s"), how far the work
    is, or why it failed. ``options`` name every option that differs from its default: they are the key of the answer.
    """
    return Asked(view.run, kind, options, verb, cost).show()


@dataclass(frozen=True)
class Asked:
    """One question to a run's models, and where its answer stands."""

    run: RunRecord
    kind: str
    options: dict[str, Any]
    verb: str
    cost: str

    @property
    def key(self) -> str:
        """Of its widgets: other for other options."""
        options = json.dumps(self.options, sort_keys=True, default=str)
        return f"analysis_{self.run.id}_{self.kind}_{crc32(options.encode()):x}"

    def show(self) -> Findings | None:
        store = queries.store()
        found = store.analyses.find(self.run.id, self.kind, self.options)
        artifact = store.artifacts.get(found.artifact_id) if found and found.artifact_id else None
        if found is not None and artifact is not None:
            return self.done(found, artifact)
        if found is not None and found.is_active:
            waiting(found.id, self.key)
        elif found is not None and found.status in ("failed", "cancelled"):
            self.ended_badly(found)
        else:
            self.offer()
        return None

    def ask(self) -> None:
        if allowed_paths.problem_of(self.run):
            return
        with suppress(StorageError):  # the run was deleted meanwhile, which the page says by itself
            queries.store().analyses.request(self.run.id, self.kind, self.options)

    def offer(self) -> None:
        """The button with its price, or why there is none."""
        which = KEPT.get(str(self.options.get("which")), KEPT["last"])
        if queries.store().artifacts.latest(self.run.id, which) is None:
            st.caption(plain(without_models(self.run)))
            return
        if reason := allowed_paths.problem_of(self.run):
            st.caption(plain(f"This needs the run's data. {reason}"))
            return
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(self.verb, key=f"{self.key}_ask", on_click=self.ask)
            st.caption(plain(self.cost))

    def ended_badly(self, found: AnalysisRecord) -> None:
        if found.status == "failed":
            st.warning(plain(f"This could not be computed. {found.error or 'No reason was stored.'}"))
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Try again", key=f"{self.key}_again", on_click=self.ask)
            st.caption(plain(self.cost if found.status == "failed" else f"Cancelled. {self.cost}"))

    def done(self, found: AnalysisRecord, artifact: ArtifactRecord) -> Findings | None:
        anew: dict[str, Any] = {
            "on_click": recompute,
            "args": (found.id,),
            "key": f"{self.key}_anew",
            "disabled": allowed_paths.problem_of(self.run) is not None,
        }
        try:
            answer = queries.findings(found)
        except (ArtifactDamaged, CheckpointInvalid) as error:
            st.warning(plain(f"What was found can no longer be read: {error}"))
            st.button("Compute again", **anew)
            return None
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(plain(origin(found, artifact)), width="content")
            st.button("compute again", type="tertiary", **anew)
        return answer


def recompute(analysis_id: int) -> None:
    queries.store().analyses.recompute(analysis_id)


@st.fragment(run_every=LOOK_S)
def waiting(analysis_id: int, key: str) -> None:
    """Where a queued or running analysis stands, each second; the page is drawn anew when it has ended."""
    analyses = queries.store().analyses
    try:
        found = analyses.get(analysis_id)
    except AnalysisNotFound:
        st.rerun()
    except StorageError as error:  # the database is busy: the next look is in a second
        st.caption(plain(str(error)))
        return
    if not found.is_active:
        st.rerun()
    if found.status == "running":
        st.progress(found.progress, text=standing(found, datetime.now(UTC)))
    else:
        st.caption(plain(in_line(found)))
    asked = bool(found.control)
    st.button("Cancel", key=f"{key}_cancel", on_click=analyses.cancel, args=(analysis_id,), disabled=asked)


def standing(found: AnalysisRecord, at: datetime) -> str:
    """``41 % · 6 s so far``."""
    so_far = f"{duration((at - (found.started_at or at)).total_seconds())} so far"
    if found.control:
        return f"Cancelling · {so_far}"
    share = percent(found.progress, 0) if found.progress else "Reading the run's data"
    again = f" · attempt {found.attempts}" if found.attempts > 1 else ""
    return f"{share} · {so_far}{again}"


def in_line(found: AnalysisRecord) -> str:
    """Why a queued one has not begun."""
    if not queries.engines():
        return NO_ENGINE
    before = sum(other.status == "queued" and other.id < found.id for other in queries.store().analyses.active())
    behind = f", behind {plural(before, 'other analysis', 'other analyses')}" if before else ""
    return f"Waits for a free slot{behind}; it comes before all runs that are queued."


def origin(found: AnalysisRecord, artifact: ArtifactRecord) -> str:
    """``Computed in 3.2 s from the models of round 50``."""
    took = ""
    if found.started_at and found.finished_at:
        took = f" in {seconds((found.finished_at - found.started_at).total_seconds())}"
    return f"Computed{took} from the models of round {artifact.round}"


def without_models(run: RunRecord) -> str:
    """Why there is nothing to compute on."""
    if run.is_active or run.status == "paused":
        return f"This looks at the run's models, which are kept when it has ended. Now it is {run.status}."
    if run.example or (run.provenance or {}).get("imported"):
        why = "this run was computed elsewhere and came without them"
    elif run.status in ("failed", "cancelled"):
        why = f"a run that {run.status.replace('cancelled', 'was cancelled')} keeps none"
    else:
        why = "they were too large to keep, or have been deleted"
    return f"This looks at the run's models, but {why}. Rerun it from the Library, then ask here again."
