"""Analyses as jobs: equal requests are merged, claims fence, and a result is registered when the job ends."""

import threading

import pytest

from storage import AnalysisNotFound, AnalysisRecord, ArtifactRecord, Fenced, RunNotFound, RunRecord, Store

LANDSCAPE = {"steps": 25, "which": "last"}


@pytest.fixture
def done(store: Store, run: RunRecord) -> RunRecord:
    store.queue.finish(run.id, run.epoch, "done")
    return store.queue.get(run.id)


@pytest.fixture
def claimed(store: Store, run: RunRecord) -> AnalysisRecord:
    store.analyses.request(run.id, "landscape", LANDSCAPE)
    claimed = store.analyses.claim()
    assert claimed is not None
    return claimed


def finish(store: Store, analysis: AnalysisRecord) -> ArtifactRecord:
    """Finishes the analysis and returns its artifact."""
    file = store.artifacts.write_file(analysis.run_id, "analysis-landscape", 5, b"grid")
    store.analyses.finish(analysis.id, analysis.epoch, "done", result=file)
    artifact = store.artifacts.get(store.analyses.get(analysis.id).artifact_id or 0)
    assert artifact is not None
    return artifact


def test_an_analysis_is_claimed_once_and_finished_with_its_result(store: Store, run: RunRecord) -> None:
    requested = store.analyses.request(run.id, "landscape", LANDSCAPE)
    claimed = store.analyses.claim()
    assert claimed is not None
    assert (claimed.id, claimed.status, claimed.params) == (requested.id, "running", LANDSCAPE)
    assert (claimed.epoch, claimed.attempts) == (1, 1)
    assert store.analyses.claim() is None
    artifact = finish(store, claimed)
    (done,) = store.analyses.list(run.id, kind="landscape")
    assert (done.status, done.artifact_id, done.progress) == ("done", artifact.id, 1.0)
    assert store.artifacts.read(artifact) == b"grid"
    assert done.finished_at >= done.started_at


def test_the_oldest_request_is_claimed_first(store: Store, run: RunRecord) -> None:
    requested = [store.analyses.request(run.id, kind, {}) for kind in ("b", "a")]
    assert [store.analyses.claim().id for _ in requested] == [analysis.id for analysis in requested]


def test_a_result_is_listed_with_its_end_until_it_is_computed_again(store: Store, claimed: AnalysisRecord) -> None:
    assert store.analyses.done([claimed.run_id]) == []
    finish(store, claimed)
    (first,) = store.analyses.done([claimed.run_id])
    assert first == (claimed.id, store.analyses.get(claimed.id).finished_at)
    assert store.analyses.done([claimed.run_id + 1]) == []
    store.analyses.recompute(claimed.id)
    assert store.analyses.done([claimed.run_id]) == []
    again = store.analyses.claim()
    assert again is not None
    finish(store, again)
    (second,) = store.analyses.done([claimed.run_id])
    assert second[0] == first[0] and second[1] != first[1]


@pytest.mark.parametrize("stage", ["queued", "running", "done"])
def test_an_equal_request_returns_the_existing_analysis(store: Store, run: RunRecord, stage: str) -> None:
    requested = store.analyses.request(run.id, "landscape", LANDSCAPE)
    if stage != "queued":
        claimed = store.analyses.claim()
    if stage == "done":
        finish(store, claimed)
    again = store.analyses.request(run.id, "landscape", {"which": "last", "steps": 25})
    assert (again.id, again.status) == (requested.id, stage)
    assert len(store.analyses.list(run.id)) == 1


def test_different_requests_are_separate_analyses(store: Store, run: RunRecord) -> None:
    requested = [
        store.analyses.request(run.id, kind, params)
        for kind, params in (("landscape", {}), ("landscape", {"steps": 3}), ("features", {}))
    ]
    assert len({analysis.id for analysis in requested}) == 3
    assert store.analyses.find(run.id, "landscape", {"steps": 3}).id == requested[1].id
    assert store.analyses.find(run.id, "landscape", {"steps": 4}) is None


def test_a_request_is_found_by_its_parameters(store: Store, run: RunRecord) -> None:
    requested = store.analyses.request(run.id, "features", {"clients": (1, 2), "limit": float("nan")})
    assert store.analyses.find(run.id, "features", {"clients": (1, 2), "limit": float("nan")}) == requested


def test_concurrent_equal_requests_create_one_analysis(store: Store, run: RunRecord) -> None:
    start = threading.Barrier(4)

    def request() -> None:
        start.wait()
        store.analyses.request(run.id, "landscape", LANDSCAPE)

    threads = [threading.Thread(target=request) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.analyses.list(run.id)) == 1


def test_a_request_for_a_deleted_run_is_refused(store: Store, run: RunRecord) -> None:
    analysis = store.analyses.request(run.id, "landscape", {})
    for missing in (1, 2**31):
        with pytest.raises(RunNotFound, match="deleted"):
            store.analyses.request(run.id + missing, "landscape", {})
        with pytest.raises(AnalysisNotFound, match="request it again"):
            store.analyses.get(analysis.id + missing)


def test_an_analysis_of_a_run_in_the_trash_waits_until_the_run_is_restored(store: Store, done: RunRecord) -> None:
    requested = store.analyses.request(done.id, "landscape", LANDSCAPE)
    store.trash.put([done.id])
    assert store.analyses.claim() is None and store.analyses.active() == []
    assert store.activity().analyses == store.shares.usage("").analyses == 0
    with pytest.raises(RunNotFound):
        store.analyses.request(done.id, "features", {})
    store.trash.restore([done.id])
    assert store.activity().analyses == store.shares.usage("").analyses == 1
    claimed = store.analyses.claim()
    assert claimed is not None and (claimed.id, claimed.attempts) == (requested.id, 1)


def test_an_analysis_that_runs_when_its_run_is_deleted_still_counts_and_ends(store: Store, done: RunRecord) -> None:
    store.analyses.request(done.id, "landscape", LANDSCAPE)
    claimed = store.analyses.claim()
    assert claimed is not None
    store.trash.put([done.id])
    assert [analysis.id for analysis in store.analyses.active()] == [claimed.id] and store.activity().analyses == 1
    store.trash.restore([done.id])
    finish(store, claimed)


@pytest.mark.parametrize("ended", ["failed", "cancelled"])
def test_an_unfinished_analysis_is_requested_again_in_the_same_row(store: Store, claimed, ended: str) -> None:
    store.analyses.finish(claimed.id, claimed.epoch, ended, error="no memory")
    again = store.analyses.request(claimed.run_id, "landscape", LANDSCAPE)
    assert (again.id, again.status, again.error, again.attempts) == (claimed.id, "queued", None, 0)
    assert store.analyses.claim().epoch == claimed.epoch + 1


def test_a_deleted_result_is_computed_again_on_request(store: Store, claimed) -> None:
    store.artifacts.delete([finish(store, claimed).id])
    assert store.analyses.get(claimed.id).artifact_id is None
    assert store.analyses.request(claimed.run_id, "landscape", LANDSCAPE).status == "queued"


def test_computing_again_deletes_the_old_result_and_its_file(store: Store, claimed) -> None:
    artifact = finish(store, claimed)
    again = store.analyses.recompute(claimed.id)
    assert (again.status, again.artifact_id, again.progress) == ("queued", None, 0.0)
    assert store.artifacts.get(artifact.id) is None
    assert not (store.artifacts.folder / artifact.path).exists()
    assert store.analyses.claim().id == claimed.id


def test_a_running_analysis_is_not_restarted(store: Store, claimed) -> None:
    assert store.analyses.recompute(claimed.id) == claimed


def test_a_progress_report_returns_the_request_to_stop(store: Store, claimed) -> None:
    assert store.analyses.report(claimed.id, claimed.epoch, 0.25) == ""
    assert store.analyses.get(claimed.id).progress == 0.25
    store.analyses.cancel(claimed.id)
    assert store.analyses.get(claimed.id).status == "running"
    assert store.analyses.report(claimed.id, claimed.epoch, 0.5) == "cancel"


def test_a_queued_analysis_is_cancelled_at_once(store: Store, run: RunRecord) -> None:
    requested = store.analyses.request(run.id, "landscape", {})
    store.analyses.cancel(requested.id)
    cancelled = store.analyses.get(requested.id)
    assert (cancelled.status, cancelled.control) == ("cancelled", "")
    assert cancelled.finished_at is not None
    assert store.analyses.claim() is None


def test_cancelling_a_finished_analysis_changes_nothing(store: Store, claimed) -> None:
    finish(store, claimed)
    before = store.analyses.get(claimed.id)
    store.analyses.cancel(claimed.id)
    assert store.analyses.get(claimed.id) == before


def test_a_previous_owner_writes_nothing_and_leaves_no_file(store: Store, claimed) -> None:
    store.analyses.requeue(claimed.id, claimed.epoch)
    store.analyses.claim()
    file = store.artifacts.write_file(claimed.run_id, "analysis-landscape", 5, b"late")
    for write in (
        lambda: store.analyses.report(claimed.id, claimed.epoch, 0.9),
        lambda: store.analyses.requeue(claimed.id, claimed.epoch),
        lambda: store.analyses.finish(claimed.id, claimed.epoch, "done", result=file),
    ):
        with pytest.raises(Fenced, match=f"analysis {claimed.id} is no longer running under claim 1"):
            write()
    assert store.analyses.get(claimed.id).status == "running"
    assert store.artifacts.list(claimed.run_id) == []
    assert not (store.artifacts.folder / file.path).exists()


def test_deleting_a_run_deletes_its_analyses_and_their_results(store: Store, run: RunRecord, claimed) -> None:
    artifact = finish(store, claimed)
    store.analyses.request(run.id, "features", {})
    running = store.analyses.claim()
    store.queue.finish(run.id, run.epoch, "done")
    store.queue.delete([run.id])
    assert store.analyses.list(run.id) == store.analyses.active() == []
    assert not (store.artifacts.folder / artifact.path).exists()
    with pytest.raises(Fenced):
        store.analyses.report(running.id, running.epoch, 0.5)


@pytest.mark.parametrize(("cancel_requested", "status"), [(False, "queued"), (True, "cancelled")])
@pytest.mark.parametrize("lost", ["worker", "dispatcher"])
def test_an_abandoned_analysis_is_queued_again_or_cancelled(
    store: Store, claimed, cancel_requested: bool, status: str, lost: str
) -> None:
    if cancel_requested:
        store.analyses.cancel(claimed.id)
    if lost == "worker":
        assert store.analyses.requeue(claimed.id, claimed.epoch) == status
    else:
        store.analyses.requeue_running()
    analysis = store.analyses.get(claimed.id)
    assert (analysis.status, analysis.control, analysis.finished_at is not None) == (status, "", cancel_requested)


def test_a_new_request_resets_the_attempts(store: Store, claimed) -> None:
    store.analyses.requeue(claimed.id, claimed.epoch, has_died=True)
    second = store.analyses.claim()
    assert second.attempts == 2
    store.analyses.finish(second.id, second.epoch, "failed", error="given up")
    store.analyses.request(second.run_id, "landscape", LANDSCAPE)
    assert store.analyses.claim().attempts == 1


def test_only_an_attempt_whose_worker_died_counts(store: Store, claimed) -> None:
    store.analyses.requeue_running()
    again = store.analyses.claim()
    store.analyses.requeue(again.id, again.epoch)
    again = store.analyses.claim()
    assert again.attempts == 1
    store.analyses.requeue(again.id, again.epoch, has_died=True)
    assert store.analyses.claim().attempts == 2


def test_queued_and_running_analyses_are_active(store: Store, run: RunRecord, claimed) -> None:
    waiting = store.analyses.request(run.id, "features", {})
    assert [analysis.id for analysis in store.analyses.active()] == [claimed.id, waiting.id]
    finish(store, claimed)
    assert [analysis.id for analysis in store.analyses.active()] == [waiting.id]


def test_analyses_of_many_runs_are_read_in_one_call(store: Store, run: RunRecord, claimed) -> None:
    other = store.queue.rerun([run.id])[0]
    requested = store.analyses.request(other.id, "landscape", {})
    assert [found.id for found in store.analyses.for_runs([run.id, other.id], "landscape")] == [
        claimed.id,
        requested.id,
    ]
    assert list(store.analyses.for_runs([other.id], "features")) == []
