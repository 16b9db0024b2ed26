"""Limits of a member: each refusal names the limit and when it resets, and nothing is stored beyond it."""

import fcntl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.access import limits
from app.access.errors import NotAllowed
from app.access.people import Person
from app.access.uploads import upload_folder
from app.actions import exchange, launch, uploads
from app.actions.uploads import save_upload
from app.inside import analysis
from app.library import actions, trash
from app.live import requests
from engine.config.schema import parse_experiment
from engine.core.errors import DataUnavailable
from engine.exchange.records import new_run
from storage import Limits, Store, Usage
from storage.shares import DAY
from tests.app.samples import DIGITS, store_experiment
from tests.support.signing_in import MEMBER, OTHER, PEOPLE, as_person, people_sign_in

THREE = parse_experiment(DIGITS | {"name": "three", "algorithms": ["fedavg"], "seeds": [0, 1, 2]})
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def store(empty_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(launch, "SAME_CLICK_S", -1.0)  # all tests share one session
    people_sign_in(monkeypatch)
    return empty_store


def queued(store: Store, owner: str = MEMBER.name) -> int:
    return store.shares.usage(owner).queued


def done(store: Store, owner: str = MEMBER.name) -> int:
    """A run that is done."""
    store.experiments.create("x", {}, [new_run(THREE.runs()[0])], owner=owner)
    run = store.queue.claim()
    assert run is not None
    store.queue.finish(run.id, run.epoch, "done")
    return run.id


def test_runs_beyond_the_limit_are_refused_with_advice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_MAX_QUEUED", "5")
    with as_person(MEMBER):
        launch.queue_experiment(THREE)
        with pytest.raises(NotAllowed) as refused:
            launch.queue_experiment(THREE)
    assert str(refused.value) == (
        "Limit reached: 5 queued runs and analyses per person, and this would make 6. Wait until one of yours "
        "starts, or cancel one."
    )
    assert queued(store) == 3 and len(store.experiments.list()) == 1 and len(store.audit.list()) == 1
    with as_person(OTHER):
        launch.queue_experiment(THREE)
    assert queued(store, OTHER.name) == 3


def test_an_admin_has_no_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_MAX_QUEUED", "1")
    with as_person(PEOPLE["admin"]):
        launch.queue_experiment(THREE)
    assert queued(store, PEOPLE["admin"].name) == 3


@pytest.mark.parametrize("way", ["retry", "rerun", "restore", "analysis"])
def test_there_is_no_way_around_the_limit(way: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = done(store)
    failed = store.experiments.create("y", {}, [new_run(THREE.runs()[1])], owner=MEMBER.name)
    (run,) = store.queue.runs(experiment_ids=[failed.id])
    claimed = store.queue.claim([run.id])
    assert claimed is not None
    store.queue.finish(run.id, claimed.epoch, "failed")
    store.experiments.create("z", {}, [new_run(THREE.runs()[2])] * 2, owner=MEMBER.name)
    first, second = store.queue.ids(["queued"])
    store.trash.put([second])
    monkeypatch.setenv("FEDSCAPE_MAX_QUEUED", "1")
    ways: dict[str, Callable[[], object]] = {
        "retry": lambda: requests._perform("retry", [run.id]),
        "rerun": lambda: actions.perform("rerun", [run_id]),
        "restore": lambda: trash.restore([second]),
        "analysis": analysis.AnalysisRequest(store.queue.get(run_id), "landscape", {}, "", "").submit,
    }
    with as_person(MEMBER), nullcontext() if way == "analysis" else pytest.raises(NotAllowed, match="1 queued runs"):
        ways[way]()
    assert not store.analyses.list(run_id)
    assert store.queue.ids(["queued"]) == [first]


def test_a_run_that_has_ended_can_be_restored_at_any_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = done(store)
    with as_person(MEMBER):
        deleted = actions.perform("delete", [run_id])
        monkeypatch.setenv("FEDSCAPE_MAX_QUEUED", "0")
        monkeypatch.setenv("FEDSCAPE_MAX_MINUTES", "0")
        (undo,) = deleted.offers
        assert undo.do(*undo.arguments).text == "Restored 1 run."


def test_running_analyses_do_not_count_as_queued(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_MAX_QUEUED", "3")
    store.analyses.request(done(store), "landscape", {})
    with as_person(MEMBER):
        with pytest.raises(NotAllowed, match="this would make 4"):
            launch.queue_experiment(THREE)
        store.analyses.claim()
        launch.queue_experiment(THREE)
    assert queued(store) == 3


def test_a_person_over_a_lowered_limit_can_still_cancel(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with as_person(MEMBER):
        launch.queue_experiment(THREE)
        monkeypatch.setenv("FEDSCAPE_MAX_QUEUED", "1")
        requests._perform("cancel", store.queue.ids(["queued"])[:1])
    assert queued(store) == 2


def usage(*computed: tuple[float, float], queued: int = 1, running: int = 0, artifact_bytes: int = 0) -> Usage:
    """``computed`` has (hours since the end, minutes)."""
    spent = tuple((NOW - timedelta(hours=ago), 60 * minutes) for ago, minutes in computed)
    return Usage(queued, running, 0, spent, artifact_bytes)


def test_the_daily_limit_says_when_time_is_available_again() -> None:
    used = usage((20, 30), (10, 25), (1, 15))
    assert limits.why_not_today(Limits(day_s=71 * 60), used, NOW) is None
    assert limits.available_at(used, 70 * 60) == NOW - timedelta(hours=20) + DAY
    assert limits.available_at(used, 40 * 60) == NOW - timedelta(hours=10) + DAY
    assert limits.why_not_today(Limits(day_s=60 * 60), used, NOW) == (
        "Limit reached: 1 h 00 min of computing per person in 24 hours; you have used 1 h 10 min. More is available in "
        "4 h 00 min (at 16:00 UTC)."
    )


def test_nothing_is_queued_once_the_daily_limit_is_reached(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done(store)
    monkeypatch.setenv("FEDSCAPE_MAX_MINUTES", "0")
    with as_person(MEMBER), pytest.raises(NotAllowed, match="of computing per person in 24 hours"):
        launch.queue_experiment(THREE)
    assert queued(store) == 0


def test_uploads_and_models_count_as_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store_experiment(store, DIGITS | {"algorithms": ["fedavg"], "seeds": [0]})
    exported = exchange.json_of([1])
    run_id, table = done(store), b"a,label\n1,0\n2,1\n" * 100
    store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, "model-last", 4, b"x" * 1500))
    monkeypatch.setenv("FEDSCAPE_MAX_DISK_GB", str(4000 / 2**30))
    with as_person(MEMBER):
        path = save_upload("mine.csv", table)
        limit = r"Limit reached: .* of disk per person; you use 3.1 kB\. To free space"
        own = r"The files that you uploaded take 1\.6 kB; delete them under Disk in the Library\."
        with pytest.raises(NotAllowed, match=f"{limit}.*{own}$"):
            save_upload("more.csv", table + b"3,1\n")
        store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, "model-best", 4, b"x" * 1500))
        with pytest.raises(NotAllowed, match="of disk per person"):
            launch.queue_experiment(THREE)
        with pytest.raises(NotAllowed, match="of disk per person"):
            exchange.import_bytes("runs.json", exported)
    assert queued(store) == 0 and Path(path).parent.name != "uploads"
    with as_person(OTHER):
        assert Path(save_upload("mine.csv", table)).parent != Path(path).parent


def test_a_deleted_upload_makes_room_for_another(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_MAX_DISK_GB", str(1000 / 2**30))
    with as_person(MEMBER):
        first = save_upload("first.csv", b"a,label\n" + b"1,0\n" * 200)
        with pytest.raises(NotAllowed, match="of disk per person"):
            save_upload("second.csv", b"a,label\n" + b"2,1\n" * 200)
        uploads.delete_upload(first)
        assert save_upload("second.csv", b"a,label\n" + b"2,1\n" * 200)


def test_a_waiting_person_sees_the_limit_that_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_MAX_RUNNING", "2")
    assert limits.why_waiting(MEMBER, usage(running=1), NOW) is None
    assert limits.why_waiting(MEMBER, usage(running=2, queued=0), NOW) is None
    reason = "At most 2 runs per person at a time: your next run starts when one of yours finishes."
    assert limits.why_waiting(MEMBER, usage(running=2), NOW) == reason
    assert limits.why_waiting(PEOPLE["admin"], usage(running=2), NOW) == reason
    assert limits.why_waiting(Person("", "admin"), usage(running=2), NOW) is None


def all_at_once(number: int, what: Callable[[int], object]) -> list[object]:
    """Calls it in as many threads; returns results and errors."""
    start = threading.Barrier(number)

    def call(i: int) -> object:
        with as_person(MEMBER):
            start.wait()
            try:
                return what(i)
            except NotAllowed as error:
                return error

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(call, range(number)))


def test_uploads_at_the_same_time_do_not_exceed_the_disk_together(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSCAPE_MAX_DISK_GB", str(4000 / 2**30))
    found = all_at_once(6, lambda i: save_upload(f"{i}.csv", b"a,label\n" + b"1,0\n" * 600))
    assert sorted(isinstance(one, NotAllowed) for one in found) == [False] + [True] * 5
    assert len(list((tmp_path / "data").rglob("*.csv"))) == 1


def test_a_file_that_is_stored_already_may_be_uploaded_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_MAX_DISK_GB", str(4000 / 2**30))
    with as_person(MEMBER):
        assert len({save_upload("same.csv", b"a,label\n" + b"1,0\n" * 600) for _ in range(3)}) == 1


def test_equal_uploads_at_the_same_time_are_one_file(store: Store, tmp_path: Path) -> None:
    found = all_at_once(6, lambda i: save_upload("same.csv", b"a,label\n1,0\n"))
    assert found == [found[0]] * 6
    assert [file.name for file in (tmp_path / "data").rglob("*.*") if file.is_file() and file.name != ".lock"] == [
        Path(str(found[0])).name
    ]


def test_an_upload_waits_for_another_one_of_the_same_person_and_gives_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LOCK_S", 0.0)
    folder = tmp_path / "data" / upload_folder(MEMBER)
    folder.mkdir(parents=True)
    with as_person(MEMBER), (folder / ".lock").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DataUnavailable, match="Another upload of yours is being stored"):
            save_upload("mine.csv", b"a,label\n1,0\n")
        fcntl.flock(other, fcntl.LOCK_UN)
        assert save_upload("mine.csv", b"a,label\n1,0\n")
