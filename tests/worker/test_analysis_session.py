"""One claimed analysis, computed in this process: how it can end, and what is stored."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from engine.analyses import AnalysisOptions
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.core.vocabulary import MODELS_OF
from engine.worker import AnalysisTicket, analysis_session
from engine.worker.analysis_session import REPORT_S, Cancelled, ProgressReporter
from engine.worker.process import work_on
from storage import AnalysisRecord, DatabaseLocked, Store
from tests.worker.samples import claim_analysis, compute


class Options(AnalysisOptions):
    factor: int = 1


@dataclass(frozen=True)
class Sizes:
    """The number of training samples per client, times a factor."""

    options: Options

    def compute(self, subject: Subject) -> Findings:
        subject.progress(0.5)
        sizes = np.array(subject.task.train_sizes) * self.options.factor
        return Findings({"sizes": sizes}, {"round": subject.round})


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers ``sizes`` as an analysis during a test."""
    ANALYSES.names()
    monkeypatch.setattr(ANALYSES, "_entries", dict(ANALYSES._entries))
    ANALYSES.register("sizes", title="Sizes", paper="of this test")(Sizes)


def analyze(store: Store, run_id: int, kind: str = "sizes", **params: Any) -> AnalysisRecord:
    """Requests, claims and computes an analysis in this process."""
    request = store.analyses.request(run_id, kind, params)
    work_on(store, claim_analysis(store))
    return store.analyses.get(request.id)


def findings(store: Store, done: AnalysisRecord) -> Findings:
    return Findings.from_bytes(store.artifacts.read(store.artifacts.get(done.artifact_id)))


def computing(monkeypatch: pytest.MonkeyPatch, compute: Callable[[Subject], Any]) -> None:
    monkeypatch.setattr(Sizes, "compute", lambda self, subject: compute(subject))


def test_findings_are_stored_when_the_analysis_ends(store: Store):
    run = compute(store)
    done = analyze(store, run.id, factor=2)
    assert (done.status, done.error, done.progress) == ("done", None, 1.0)
    found = findings(store, done)
    assert found.arrays["sizes"].tolist() == [2 * size for size in run.partition["train_sizes"]]
    assert store.artifacts.get(done.artifact_id).kind == "analysis-sizes"


@pytest.mark.parametrize(("which", "kind"), MODELS_OF.items())
def test_the_models_are_those_of_the_requested_round(store: Store, which: str, kind: str):
    run = compute(store, training__lr=2.0)
    done = analyze(store, run.id, which=which)
    round = store.artifacts.latest(run.id, kind).round
    assert findings(store, done).values == {"round": round}
    assert store.artifacts.get(done.artifact_id).round == round


def test_an_analysis_whose_run_is_deleted_before_it_starts_waits_without_an_attempt(store: Store):
    run = compute(store)
    request = store.analyses.request(run.id, "sizes", {})
    ticket = claim_analysis(store)
    store.trash.put([run.id])
    work_on(store, ticket)
    waiting = store.analyses.get(request.id)
    assert (waiting.status, waiting.attempts) == ("queued", 0)
    store.trash.restore([run.id])
    work_on(store, claim_analysis(store))
    assert store.analyses.get(request.id).status == "done"


def test_without_models_the_error_says_to_run_again(store: Store):
    run = compute(store)
    store.artifacts.delete([artifact.id for artifact in store.artifacts.list(run.id)])
    failed = analyze(store, run.id)
    assert failed.status == "failed"
    assert "last round are not available" in failed.error and "rerun it" in failed.error


def test_damaged_models_fail_the_analysis_with_a_reason(store: Store):
    run = compute(store)
    (store.artifacts.folder / store.artifacts.latest(run.id, MODELS_OF["last"]).path).write_bytes(b"rubbish")
    failed = analyze(store, run.id)
    assert failed.status == "failed"
    assert "rerun the run" in failed.error


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        ("size", {}, "did you mean 'sizes'"),
        ("sizes", {"factor": "many"}, "sizes.factor: 'many': should be a valid integer"),
        ("sizes", {"which": "worst"}, "should be 'last' or 'best'"),
        ("sizes", {"factr": 1}, "did you mean 'factor'"),
    ],
)
def test_an_invalid_request_fails_with_the_allowed_values(store: Store, kind: str, params: dict, words: str):
    failed = analyze(store, compute(store).id, kind, **params)
    assert failed.status == "failed"
    assert words in failed.error


def test_a_failing_analysis_says_why(store: Store, monkeypatch):
    def refuse(subject: Subject) -> None:
        raise Unsupported("there are no clusters; choose a clustered method")

    computing(monkeypatch, refuse)
    failed = analyze(store, compute(store).id)
    assert (failed.status, failed.error) == ("failed", "there are no clusters; choose a clustered method")


def test_an_unexpected_error_logs_its_traceback_only(store: Store, monkeypatch):
    computing(monkeypatch, lambda subject: 1 / 0)
    run = compute(store)
    failed = analyze(store, run.id)
    assert failed.error.startswith("unexpected error: ZeroDivisionError")
    assert "Traceback" not in failed.error
    assert ["Traceback" in event.message for event in store.events.list(run.id)] == [True]


def test_a_cancelled_analysis_stops_at_its_next_progress_report(store: Store, monkeypatch):
    monkeypatch.setattr(analysis_session, "REPORT_S", 0.0)

    def cancel_and_go_on(subject: Subject) -> Findings:
        (active,) = store.analyses.active()
        store.analyses.cancel(active.id)
        subject.progress(0.5)
        raise AssertionError("it went on")

    computing(monkeypatch, cancel_and_go_on)
    cancelled = analyze(store, compute(store).id)
    assert (cancelled.status, cancelled.error, cancelled.control) == ("cancelled", None, "")


def test_an_analysis_claimed_by_another_worker_writes_nothing(store: Store):
    run = compute(store)
    request = store.analyses.request(run.id, "sizes", {})
    old = claim_analysis(store)
    store.analyses.requeue_running()
    claim_analysis(store)
    before = store.artifacts.list(run.id)
    work_on(store, old)
    assert store.analyses.get(request.id).status == "running"
    assert store.artifacts.list(run.id) == before
    assert store.artifacts.sweep() == 0


def test_a_run_deleted_during_its_analysis_leaves_nothing(store: Store, monkeypatch):
    run = compute(store)

    def delete(subject: Subject) -> Findings:
        store.queue.delete([run.id])
        return Findings({"sizes": np.zeros(3)})

    computing(monkeypatch, delete)
    store.analyses.request(run.id, "sizes", {})
    work_on(store, claim_analysis(store))
    assert store.analyses.active() == []
    assert [path for path in store.artifacts.folder.rglob("*") if path.is_file()] == []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watched(store: Store) -> tuple[ProgressReporter, Clock, AnalysisTicket]:
    run = compute(store)
    store.analyses.request(run.id, "sizes", {})
    ticket, clock = claim_analysis(store), Clock()
    return ProgressReporter(store, ticket, clock), clock, ticket


def test_progress_is_written_periodically_and_never_decreases(store: Store, watched):
    watch, clock, ticket = watched
    seen = []
    for clock.now, share in ((0.1, 0.3), (1.0, 0.2), (1.1, 0.9), (2.0, float("nan")), (3.0, 7.0)):
        watch(share)
        seen.append(store.analyses.get(ticket.analysis_id).progress)
    assert seen == [0.0, 0.3, 0.3, 0.9, 1.0]


def test_a_request_to_stop_is_read_with_the_next_report(store: Store, watched):
    watch, clock, ticket = watched
    store.analyses.cancel(ticket.analysis_id)
    watch(0.5)
    clock.now = REPORT_S
    with pytest.raises(Cancelled):
        watch(0.5)


def test_a_locked_database_does_not_stop_an_analysis(store: Store, watched, monkeypatch):
    def locked(*_: object) -> None:
        raise DatabaseLocked("locked")

    monkeypatch.setattr(store.analyses, "report", locked)
    watch, clock, _ = watched
    clock.now = 1.0
    watch(0.5)
