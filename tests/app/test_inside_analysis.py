"""An analysis on a page, in every state; automatic updates are tested in the browser."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.inside import analysis
from engine.core.findings import Findings
from storage import AnalysisRecord, ArtifactRecord, Store

KIND, OPTIONS = "of_a_plugin", {"steps": 3}
FOUND = Findings({"loss": np.arange(3.0)}, {"minimum": 0.5})


def page() -> None:
    import streamlit as st

    from app.data import queries
    from app.inside.analysis import findings
    from app.inside.view import RunView

    view = RunView(queries.runs(run_ids=[1], include_archived=True)[0])
    for options in st.session_state["requested"]:
        found = findings(view, "of_a_plugin", options, verb="Compute landscape", cost="9 evaluations")
        st.text("nothing yet" if found is None else f"found {found.arrays['loss'].tolist()} {found.values}")


def opened(*requested: dict[str, Any]) -> AppTest:
    at = AppTest.from_function(page, default_timeout=60)
    at.session_state["requested"] = requested or (OPTIONS,)
    at.run()
    assert not at.exception
    return at


def words(at: AppTest) -> str:
    return "\n".join(e.value for e in [*at.text, *at.caption, *at.warning, *at.markdown])


def press(at: AppTest, label: str) -> AppTest:
    next(button for button in at.button if button.label == label).click().run()
    assert not at.exception
    return at


@pytest.fixture
def store(filled_store: Store) -> Store:
    """A store in which run 1 has models."""
    file = filled_store.artifacts.write_file(1, "model-last", 5, b"models")
    filled_store.artifacts.register(1, None, file)
    return filled_store


@pytest.fixture
def claimed(store: Store) -> AnalysisRecord:
    store.analyses.request(1, KIND, OPTIONS)
    return store.analyses.claim()


def finish(store: Store, claimed: AnalysisRecord, data: bytes = FOUND.to_bytes()) -> ArtifactRecord:
    file = store.artifacts.write_file(1, f"analysis-{KIND}", 5, data)
    store.analyses.finish(claimed.id, claimed.epoch, "done", result=file)
    return store.artifacts.latest(1, f"analysis-{KIND}")


def test_a_button_with_its_cost_queues_it(store: Store) -> None:
    at = opened()
    assert "9 evaluations" in words(at)
    press(at, "Compute landscape")
    (requested,) = store.analyses.list(1)
    assert (requested.kind, requested.params, requested.status) == (KIND, OPTIONS, "queued")
    assert "nothing yet" in words(at)


def test_a_queued_one_says_that_a_worker_must_run(store: Store) -> None:
    store.analyses.request(1, KIND, OPTIONS)
    assert "python -m engine worker" in words(opened())


def test_a_queued_one_waits_for_its_turn(store: Store) -> None:
    store.engines.heartbeat(host="here", pid=1, device="cpu", slots=2, running=2)
    store.analyses.request(1, "features", {})
    store.analyses.request(1, KIND, OPTIONS)
    expected = words(opened())
    assert "Waiting for a slot, behind 1 other analysis" in expected


def test_cancelling_a_queued_one_offers_it_again(store: Store) -> None:
    store.analyses.request(1, KIND, OPTIONS)
    at = press(opened(), "Cancel")
    assert store.analyses.list(1)[0].status == "cancelled"
    at = opened()
    assert "Cancelled" in words(at)
    press(at, "Try again")
    assert [a.status for a in store.analyses.list(1)] == ["queued"]


def test_a_running_one_shows_progress_and_can_be_cancelled(store: Store, claimed: AnalysisRecord) -> None:
    store.analyses.report(claimed.id, claimed.epoch, 0.41)
    at = opened()
    assert at.get("progress")[0].proto.value == 41
    press(at, "Cancel")
    assert store.analyses.get(claimed.id).control == "cancel"
    assert next(b for b in opened().button if b.label == "Cancel").disabled


def test_a_failed_one_shows_its_error_and_can_be_retried(store: Store, claimed: AnalysisRecord) -> None:
    store.analyses.finish(claimed.id, claimed.epoch, "failed", error="steps: 3 is *too* few")
    at = opened()
    assert r"steps\: 3 is \*too\* few" in words(at)
    press(at, "Try again")
    assert store.analyses.get(claimed.id).status == "queued"


def test_findings_show_their_provenance(store: Store, claimed: AnalysisRecord) -> None:
    finish(store, claimed)
    expected = words(opened())
    assert "found [0.0, 1.0, 2.0] {'minimum': 0.5}" in expected
    assert "from the models of round 5" in expected


def test_findings_can_be_computed_again(store: Store, claimed: AnalysisRecord) -> None:
    finish(store, claimed)
    press(opened(), "Recompute")
    again = store.analyses.get(claimed.id)
    assert (again.status, again.artifact_id) == ("queued", None)


def test_findings_are_read_once(store: Store, claimed: AnalysisRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(store, claimed)
    read = []
    from_bytes = Findings.from_bytes
    monkeypatch.setattr(Findings, "from_bytes", lambda data: read.append(1) or from_bytes(data))
    opened()
    opened().run()
    assert len(read) == 1


@pytest.mark.parametrize("data", [b"rubbish", b""], ids=["other bytes", "no file"])
def test_damaged_findings_are_reported_and_can_be_recomputed(
    store: Store, claimed: AnalysisRecord, data: bytes
) -> None:
    path = store.artifacts.folder / finish(store, claimed).path
    path.write_bytes(data) if data else path.unlink()
    at = opened()
    assert "can no longer be read" in words(at)
    press(at, "Recompute")
    assert store.analyses.get(claimed.id).status == "queued"


def test_a_file_without_findings_is_refused(store: Store, claimed: AnalysisRecord) -> None:
    finish(store, claimed, data=b"not safetensors")
    assert "can no longer be read" in words(opened())


def test_a_deleted_result_can_be_recomputed(store: Store, claimed: AnalysisRecord) -> None:
    store.artifacts.delete([finish(store, claimed).id])
    press(opened(), "Compute landscape")
    assert store.analyses.get(claimed.id).status == "queued"


def test_a_run_without_models_has_advice_instead_of_a_button(read_store: Store) -> None:
    at = opened()
    assert not at.button
    assert "Rerun it from the Library" in words(at)


@pytest.mark.slow
def test_other_options_are_another_analysis_on_the_same_page(store: Store, claimed: AnalysisRecord) -> None:
    finish(store, claimed)
    at = opened(OPTIONS, {"steps": 5}, {"steps": "<b>*many*", "which": ["odd"]})
    assert words(at).count("nothing yet") == 2
    assert [b.label for b in at.button].count("Compute landscape") == 2


@pytest.mark.parametrize(
    ("status", "example", "expected"),
    [
        ("running", False, "it is running now"),
        ("cancelled", False, "cancelled runs store none"),
        ("failed", False, "failed runs store none"),
        ("done", True, "computed elsewhere"),
        ("done", False, "too large"),
    ],
)
def test_the_reason_for_missing_models_is_shown(run_of: Callable, status: str, example: bool, expected: str) -> None:
    assert expected in analysis.without_models(run_of(status, example))


@pytest.fixture
def run_of() -> Callable:
    from tests.app.frames import run_record

    return lambda status, example: run_record(1, status=status, example=example)


def test_progress_is_described_in_words() -> None:
    started_at = datetime(2026, 1, 1, tzinfo=UTC)
    found = AnalysisRecord(1, 1, KIND, {}, "running", None, None, started_at, 0.41, 1, "", 1, started_at, None)
    later = started_at + timedelta(seconds=6)
    assert analysis.standing(found, later) == "41 % · 6 s so far"
