"""Who may do what: each cell of the table, done for real, with one's own runs, those of another and those of nobody.

The table is written out here once more; docs/how-to/share-with-others.md shows the same.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest

from app.access import permits
from app.access.browsers import lecturer_key, new_secret, reader_id
from app.access.errors import NotAllowed
from app.access.people import Person
from app.access.roles import TABLE, Action, Role
from app.access.uploads import upload_folder
from app.actions import exchange, launch, rooms
from app.actions.uploads import save_upload
from app.compare import generalization
from app.compare.view import View
from app.data import allowed_paths, queries
from app.inside import analysis
from app.library import actions, experiment, models, notes, saved, trash, uploads
from app.live import requests
from engine.config.presets import load_preset
from engine.config.schema import parse_experiment
from engine.core.errors import FedscapeError
from engine.core.paths import default_data_dir
from engine.exchange.records import new_run
from storage import ExperimentRecord, RunRecord, Status, StorageError, Store
from tests.app import databases
from tests.app.samples import DIGITS, store_experiment
from tests.support.signing_in import (
    MEMBER,
    OTHER,
    PEOPLE,
    ROLES,
    SETTINGS,
    as_person,
    claims,
    people_sign_in,
)

ROOT = Path(__file__).resolve().parents[2]
SECRET, READER, NEW_READER = new_secret(), new_secret(), new_secret()  # of browsers
SMALL = DIGITS | {"name": "small", "algorithms": ["fedavg"], "seeds": [0]}

ORDER = ("admin", "member", "visitor")
EXPECTED: dict[Action, tuple[str, str, str]] = {
    "view": ("all", "all", "all"),
    "queue": ("all", "all", "none"),
    "change": ("all", "own", "none"),
    "delete": ("all", "own", "none"),
    "analyze": ("all", "own", "none"),
    "import": ("all", "all", "none"),
    "upload": ("all", "all", "none"),
    "download": ("all", "all", "none"),
    "teach": ("all", "all", "none"),
    "steer": ("own", "own", "none"),
    "answer": ("all", "all", "none"),
    "views": ("all", "none", "none"),
    "paths": ("all", "none", "none"),
    "audit": ("all", "none", "none"),
}


@dataclass(frozen=True)
class Runs:
    """Runs of one owner, one in each state, and a room; that which is done has models and an analysis."""

    experiment: int
    waiting: int
    second: int
    paused: int
    failed: int
    done: int
    deleted: int
    active: int
    ended: int
    room: str

    def record(self, store: Store) -> ExperimentRecord:
        return store.experiments.get(self.experiment)


@pytest.fixture
def store(empty_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "own.npz", x=np.zeros((40, 4)), y=np.arange(40) % 4)
    for name in ("", OTHER.name, *(person.name for person in PEOPLE.values())):
        folder = tmp_path / "data" / upload_folder(Person(name, "member"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "uploaded.csv").write_text("a,label\n1,0\n", encoding="utf-8")
    people_sign_in(monkeypatch)
    return empty_store


@pytest.fixture(scope="module")
def files(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Runs]]:
    """A database with the runs of one owner, and these."""
    root = tmp_path_factory.mktemp("owned")

    @cache
    def made(owner: str) -> tuple[Path, Runs]:
        file = root / f"{len(list(root.iterdir()))}" / "runs.db"
        file.parent.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            (runs,) = [runs_of(store, owner) for store in databases.copied(empty_file, file, patch)]
        return file, runs

    return made


@pytest.fixture
def owned(
    files: Callable[[str], tuple[Path, Runs]], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], tuple[Store, Runs]]]:
    """``owned(name)``: a database with ``runs_of`` this owner, in place of the empty one."""
    with ExitStack() as stack:

        def given(owner: str) -> tuple[Store, Runs]:
            file, runs = files(owner)
            if (file.parent / "artifacts").is_dir():
                shutil.copytree(file.parent / "artifacts", tmp_path / "artifacts", dirs_exist_ok=True)
            opened = contextmanager(databases.copied)(file, tmp_path / "owned.db", monkeypatch)
            return stack.enter_context(opened), runs

        yield given


def runs_of(store: Store, owner: str) -> Runs:
    new = new_run(parse_experiment(SMALL).runs()[0])
    made = store.experiments.create("small", SMALL, [replace(new, digest=f"{i}") for i in range(6)], owner=owner)
    ids = [run.id for run in store.queue.runs(experiment_ids=[made.id], newest_first=False)]
    waiting, second, paused, failed, done, deleted = ids
    store.queue.request([paused], "pause")
    for run_id, status in ((failed, "failed"), (done, "done"), (deleted, "done")):
        claimed = store.queue.claim([run_id])
        assert claimed is not None
        store.queue.describe(run_id, claimed.epoch, partition={"test_sizes": [3, 3]})
        store.queue.finish(run_id, claimed.epoch, cast(Status, status))
    store.artifacts.register(done, None, store.artifacts.write_file(done, "model-last", 4, b"models"))
    active, ended = (store.analyses.request(done, kind, {}).id for kind in ("landscape", "sharpness"))
    store.analyses.cancel(ended)
    store.trash.put([deleted])
    store.saved_views.save("library", "first", "status=done")
    room = store.rooms.open(partial(lecturer_key, SECRET), owner, {}, "dial.1").code
    store.rooms.join(room, reader_id(READER, room))
    return Runs(made.id, waiting, second, paused, failed, done, deleted, active, ended, room)


def delete_file(store: Store, of: Runs) -> None:
    """The uploaded file of their owner."""
    folder = upload_folder(Person(of.record(store).owner, "member"))
    uploads.delete(next(f"{folder}/{path.name}" for path in (default_data_dir() / folder).glob("*.csv")))


def run(run_id: int) -> RunRecord:
    return queries.runs(run_ids=[run_id], include_archived=True)[0]


def state(store: Store) -> Any:
    """Everything that an attempt could have changed."""
    with store._database.read() as connection:
        tables = ("experiments", "runs", "analyses", "artifacts", "saved_views", "audit_entries")
        tables += ("rooms", "room_readers", "room_answers")
        rows = [connection.exec_driver_sql(f"SELECT * FROM {table}").all() for table in tables]
    return rows, sorted(map(str, (default_data_dir() / "uploads").rglob("*.*")))


def ask(store: Store, of: Runs) -> None:
    analysis.AnalysisRequest(run(of.done), "features", {}, "Compute", "").submit()


def measure(store: Store, of: Runs) -> None:
    generalization._request(cast(View, SimpleNamespace(when="last")), [of.done])


def renew(secret: str, of: Runs) -> None:
    store = queries.store()
    found = store.rooms.get(of.room)
    assert found is not None
    rooms.renew(store, secret, found)


def refused(action: Action) -> None:
    if reason := permits.refusal(action):
        raise NotAllowed(reason)


def use_a_path() -> None:
    if reason := allowed_paths.problem({"name": "custom", "path": "own.npz"}):
        raise NotAllowed(reason)


Attempt = Callable[[Store, Runs], object]
WRITES: list[tuple[Action, str, Attempt]] = [
    ("queue", "from Set up", lambda s, of: launch.queue_experiment(parse_experiment(SMALL))),
    ("queue", "a preset", lambda s, of: launch.queue_preset(load_preset("digits-first"), "quick")),
    ("change", "pause", lambda s, of: requests._perform("pause", [of.waiting])),
    ("change", "cancel", lambda s, of: requests._perform("cancel", [of.waiting])),
    ("change", "resume", lambda s, of: requests._perform("resume", [of.paused])),
    ("change", "move", lambda s, of: requests._perform("last", [of.waiting])),
    ("change", "prioritize", lambda s, of: requests._perform("high", [of.waiting])),
    ("change", "retry", lambda s, of: requests._perform("retry", [of.failed])),
    ("change", "cancel in the Library", lambda s, of: actions.perform("cancel", [of.waiting])),
    ("change", "rerun in the Library", lambda s, of: actions.perform("rerun", [of.done])),
    ("change", "archive in the Library", lambda s, of: actions.perform("archive", [of.done])),
    ("change", "prioritize in the Library", lambda s, of: actions.perform("low priority", [of.waiting])),
    ("change", "note", lambda s, of: notes.write([run(of.done)], "a note", [], [], "run")),
    ("change", "tag", lambda s, of: notes.write([run(of.done)], None, ["tag"], [], "run")),
    ("change", "note on the experiment", lambda s, of: notes.write([of.record(s)], "a note", [], [], "experiment")),
    ("change", "rename", lambda s, of: experiment.rename(of.record(s), "another name")),
    ("change", "archive the experiment", lambda s, of: experiment.archive(of.record(s), True)),
    ("delete", "delete", lambda s, of: actions.perform("delete", [of.done])),
    ("delete", "restore", lambda s, of: trash.restore([of.deleted])),
    ("delete", "delete for good", lambda s, of: trash.purge([of.deleted])),
    ("delete", "drop models", lambda s, of: models.drop([of.done])),
    ("delete", "an uploaded file", delete_file),
    ("analyze", "request", ask),
    ("analyze", "recompute", lambda s, of: analysis.recompute(of.done, of.ended)),
    ("analyze", "cancel", lambda s, of: analysis.cancel(of.done, of.active)),
    ("analyze", "from Compare", measure),
    ("import", "a file", lambda s, of: exchange.import_bytes("runs.json", EXPORTED[0])),
    ("import", "the examples", lambda s, of: exchange.load_examples()),
    ("upload", "data", lambda s, of: save_upload("mine.csv", b"a,label\n1,0\n2,1\n")),
    ("teach", "open", lambda s, of: rooms.open_room(queries.store(), SECRET, {}, "")),
    ("steer", "move", lambda s, of: rooms.move(queries.store(), SECRET, of.room, {"story": "dial"}, "")),
    ("steer", "show answers", lambda s, of: rooms.show_answers(queries.store(), SECRET, of.room, True)),
    ("steer", "close", lambda s, of: rooms.close(queries.store(), SECRET, of.room)),
    ("steer", "heartbeat", lambda s, of: renew(SECRET, of)),
    ("answer", "join", lambda s, of: rooms.join(queries.store(), NEW_READER, of.room)),
    ("answer", "leave", lambda s, of: rooms.leave(queries.store(), READER, of.room)),
    ("answer", "answer", lambda s, of: rooms.answer(queries.store(), READER, of.room, "dial.1", "Alone")),
    ("answer", "heartbeat", lambda s, of: renew(READER, of)),
    ("views", "save", lambda s, of: saved.save("mine", "status=done")),
    ("views", "delete", lambda s, of: saved.delete("first")),
]
READS: list[tuple[Action, str, Attempt]] = [
    ("view", "export", lambda s, of: (exchange.json_of([of.done]), exchange.csv_of([of.done]))),
    ("download", "a data set", lambda s, of: refused("download")),
    ("paths", "a file of the server", lambda s, of: use_a_path()),
    ("audit", "the log", lambda s, of: refused("audit")),
]


EXPORTED: list[bytes] = []


@pytest.fixture(scope="module", autouse=True)
def _exported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An exported run, to import."""
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('exported') / 'x.db'}")
    with pytest.MonkeyPatch.context() as patch:
        store.ensure_schema()
        patch.setenv("DATABASE_URL", store.url)
        store_experiment(store, SMALL | {"name": "elsewhere"})
        EXPORTED[:] = [exchange.json_of([1])]
        store.close()


def test_the_table_is_the_one_written_here() -> None:
    assert {action: (row.admin, row.member, row.visitor) for action, row in TABLE.items()} == EXPECTED


def test_each_action_of_the_table_is_attempted() -> None:
    assert {action for action, *_ in [*WRITES, *READS]} == set(TABLE)


@pytest.mark.parametrize(
    ("action", "role", "attempt"),
    [
        pytest.param(action, role, attempt, id=f"{role}-{action}-{name}")
        for action, name, attempt in WRITES
        for role in get_args(Role)
        if EXPECTED[action][ORDER.index(role)] != "none"
    ],
)
def test_what_the_table_allows_happens(
    action: Action, role: Role, attempt: Attempt, owned: Callable[[str], tuple[Store, Runs]]
) -> None:
    """An admin with what another owns, where the table allows that; all others with what they own themselves."""
    is_foreign = role == "admin" and may(role, action, "another")
    store, of = owned(OTHER.name if is_foreign else PEOPLE[role].name)
    before = state(store)
    with as_person(PEOPLE[role]):
        attempt(store, of)
    assert state(store) != before


@pytest.mark.parametrize(
    ("action", "role"),
    [
        pytest.param(action, role, id=f"{role}-{action}")
        for action in dict.fromkeys(action for action, *_ in WRITES)
        for role in get_args(Role)
        if EXPECTED[action][ORDER.index(role)] != "all"
    ],
)
def test_what_the_table_refuses_changes_nothing(action: Action, role: Role, store: Store) -> None:
    person = PEOPLE[role]
    owners = {"own": person.name, "another": OTHER.name, "none": ""}
    runs = {owner: runs_of(store, name) for owner, name in owners.items() if not may(role, action, owner)}
    before = state(store)
    for of in runs.values():
        for kind, name, attempt in WRITES:
            if kind == action:
                with as_person(person), suppress(StorageError, FedscapeError):
                    attempt(store, of)
                assert state(store) == before, name


@pytest.mark.parametrize("role", get_args(Role))
@pytest.mark.parametrize(("action", "name", "attempt"), READS, ids=[f"{one[0]}-{one[1]}" for one in READS])
def test_a_read_is_refused_where_the_table_refuses_it(
    action: Action, name: str, attempt: Attempt, role: Role, store: Store
) -> None:
    of = runs_of(store, OTHER.name)
    with as_person(PEOPLE[role]), nullcontext() if may(role, action, "another") else pytest.raises(StorageError):
        attempt(store, of)


def test_a_read_only_app_stores_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in {**SETTINGS, **ROLES}:
        monkeypatch.delenv(setting)
    monkeypatch.setenv("FEDSCAPE_READ_ONLY", "1")
    nothing_is_stored(store, runs_of(store, ""))


def test_an_admin_of_a_read_only_app_stores_nothing_either(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_READ_ONLY", "1")
    monkeypatch.setattr(permits.st, "user", SimpleNamespace(to_dict=lambda: claims(PEOPLE["admin"].name)))
    nothing_is_stored(store, runs_of(store, PEOPLE["admin"].name))


def test_nothing_is_stored_for_somebody_who_is_not_signed_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    of = runs_of(store, MEMBER.name)
    monkeypatch.setattr(permits.st, "user", SimpleNamespace(to_dict=lambda: claims(exp=1)))
    nothing_is_stored(store, of)
    for changes in ({"is_logged_in": False}, {"iss": "https://other.test"}, {"aud": "another app"}):
        monkeypatch.setattr(permits.st, "user", SimpleNamespace(to_dict=partial(claims, **changes)))
        with pytest.raises(NotAllowed):
            requests._perform("cancel", [of.waiting])
    monkeypatch.setattr(permits.st, "user", SimpleNamespace(to_dict=claims))
    requests._perform("cancel", [of.waiting])  # the same person, signed in
    assert store.queue.get(of.waiting).status == "cancelled"


def nothing_is_stored(store: Store, of: Runs) -> None:
    before = state(store)
    for _, name, attempt in WRITES:
        with suppress(StorageError, FedscapeError):
            attempt(store, of)
        assert state(store) == before, name


def test_a_write_that_asks_for_no_permit_is_refused(store: Store) -> None:
    of = runs_of(store, MEMBER.name)
    with as_person(PEOPLE["admin"]), pytest.raises(NotAllowed):
        queries.store().queue.request([of.waiting], "cancel")


def test_a_deletion_offers_to_cancel_no_runs_of_others(store: Store) -> None:
    mine, theirs = runs_of(store, MEMBER.name), runs_of(store, OTHER.name)
    with as_person(MEMBER):
        notice = actions.perform("delete", [mine.done, theirs.done, theirs.waiting])
    assert notice.text == "Deleted 1 run; 2 have other owners."
    assert [offer.label for offer in notice.offers] == ["Undo"]


def test_the_owners_of_nothing_are_not_looked_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(store.experiments), "owners", None)
    with as_person(PEOPLE["member"]), permits.allow("change", queries.store(), "Save", of=["first"]):
        queries.store().saved_views.save("library", "first", "status=done")
    assert [view.name for view in store.saved_views.list("library")] == ["first"]


def may(role: Role, action: Action, owner: str) -> bool:
    """As written in this file."""
    reach = EXPECTED[action][ORDER.index(role)]
    return reach == "all" or (reach == "own" and owner == "own")


def test_the_docs_show_the_same_table() -> None:
    text = (ROOT / "docs" / "how-to" / "share-with-others.md").read_text("utf-8")
    shown = {"all": "yes", "own": "their own", "none": "no"}
    rows = re.findall(r"^\| ([^|]+) \| (yes|their own|no) \| (yes|their own|no) \| (yes|their own|no) \|$", text, re.M)
    assert rows == [
        (row.what[0].upper() + row.what[1:], *(shown[reach] for reach in (row.admin, row.member, row.visitor)))
        for row in TABLE.values()
    ]
