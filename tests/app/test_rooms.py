"""Rooms outside of pages: codes, the browser's secret, reads that are shared, heartbeats, and the polled route."""

import re
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import endpoints
from app.access import browsers
from app.access.browsers import lecturer_key, new_secret, reader_id
from app.actions import rooms as actions
from app.data import queries, rooms
from app.data.lru import Lru
from app.learn import room_feed
from app.server import routes
from storage import DatabaseLocked, RoomRecord, Store
from tests.support.signing_in import MEMBER, OTHER, PEOPLE, as_person, people_sign_in

ROOT = Path(__file__).resolve().parents[2]
HOST = "http://127.0.0.1:8501"
WAIT_S = 60
LECTURER, READER = new_secret(), new_secret()
HOSTILE = [
    "",
    "ABCD",
    "ABCDEFGHJ",
    "ABCDEFG1",
    "ABCDEFGI",
    "ÄBCDEFGH",
    "' OR 1=1",
    "ABCDEFGH" * 1000,
    "ABCDEFG\x00",
    "..%2F",
]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read of a room is one of the database, unless a test sets the tick; each heartbeat is due."""
    ticks = count()
    monkeypatch.setattr(rooms, "tick", lambda: next(ticks))
    monkeypatch.setattr(actions, "_renewed", Lru(100))


@pytest.fixture
def room(empty_store: Store) -> RoomRecord:
    return actions.open_room(queries.store(), LECTURER, {"story": "dial"}, "dial.2")


@pytest.fixture
def client(empty_store: Store) -> Iterator[TestClient]:
    with TestClient(Starlette(routes=routes.build(queries.store())), HOST) as client:
        yield client


def poll(client: TestClient, code: str, secret: str | None = None) -> tuple[int, dict[str, object]]:
    headers = {"Cookie": f"{browsers.COOKIE}={secret}"} if secret else {}
    answer = client.get(endpoints.ROOM, params={"code": code}, headers=headers)
    return answer.status_code, answer.json()


def seen(store: Store, table: str, column: str) -> list[str]:
    with store._database.read() as connection:
        return [row[0] for row in connection.exec_driver_sql(f"SELECT {column} FROM {table}")]


@pytest.mark.parametrize("typed", ["ABCDEFGH", "abcd efgh", " abcd-EFGH\n"])
def test_a_code_may_be_typed_with_spaces_and_in_lower_case(typed: str) -> None:
    assert rooms.parse_code(typed) == "ABCDEFGH"
    assert rooms.spaced("ABCDEFGH") == "ABCD EFGH"


@pytest.mark.parametrize("typed", HOSTILE)
def test_whatever_is_not_a_code_is_refused_without_reading_the_database(
    typed: str, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "room", lambda *_: pytest.fail("the database was read"))
    assert rooms.parse_code(typed) is None
    assert poll(client, typed)[0] == 404


def test_the_poll_returns_version_and_counts(client: TestClient, room: RoomRecord) -> None:
    assert poll(client, room.code) == (200, {"version": 1, "text": "0 of 0 answered", "wait_ms": room_feed.POLL_MS})
    actions.join(queries.store(), READER, room.code)
    actions.answer(queries.store(), READER, room.code, "dial.2", "Alone")
    actions.show_answers(queries.store(), LECTURER, room.code, True)
    assert poll(client, room.code)[1] == {"version": 2, "text": "1 of 1 answered", "wait_ms": room_feed.POLL_MS}
    actions.move(queries.store(), LECTURER, room.code, {"story": "alone"}, "")
    assert poll(client, room.code)[1]["text"] == "1 reader"


def test_a_closed_room_is_not_found_and_nothing_is_cached_by_browsers(client: TestClient, room: RoomRecord) -> None:
    assert client.get(endpoints.ROOM, params={"code": room.code}).headers["Cache-Control"] == "no-store"
    actions.close(queries.store(), LECTURER, room.code)
    assert poll(client, room.code)[0] == 404
    assert client.get(endpoints.ROOM, params={"code": room.code}).headers["Cache-Control"] == "no-store"


def test_a_database_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    client = TestClient(Starlette(routes=routes.build(Store(f"sqlite:///{tmp_path / 'new.db'}"))))
    status, body = poll(client, "ABCDEFGH")
    assert status == 503 and set(body) == {"problem"}


def test_thirty_polls_at_once_read_the_database_once(
    room: RoomRecord, monkeypatch: pytest.MonkeyPatch, empty_store: Store
) -> None:
    reads: list[str] = []
    store = queries.store()
    get = store.rooms.get
    monkeypatch.setattr(store.rooms, "get", lambda code: (reads.append(code), get(code))[1])
    monkeypatch.setattr(rooms, "tick", lambda: 7)
    threads = [threading.Thread(target=rooms.room, args=(store, room.code)) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert reads == [room.code]
    monkeypatch.setattr(rooms, "tick", lambda: 8)
    assert rooms.room(store, room.code) == get(room.code)
    assert len(reads) == 2


def test_the_answers_are_read_once_for_each_version(room: RoomRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    store, reads = queries.store(), list[str]()
    monkeypatch.setattr(store.rooms, "tally", lambda code: reads.append(code) or {"Alone": len(reads)})
    for _ in range(3):
        assert rooms.tally(store, room) == {"Alone": 1}
    actions.show_answers(store, LECTURER, room.code, True)
    later = store.rooms.get(room.code)
    assert later is not None and rooms.tally(store, later) == {"Alone": 2}


def test_all_web_servers_show_the_same_answers(room: RoomRecord) -> None:
    store, late = queries.store(), new_secret()
    for secret in (READER, late):
        actions.join(store, secret, room.code)
    actions.answer(store, READER, room.code, "dial.2", "Alone")
    actions.show_answers(store, LECTURER, room.code, True)
    shown = store.rooms.get(room.code)
    assert shown is not None and rooms.tally(store, shown) == {"Alone": 1}
    actions.answer(store, late, room.code, "dial.2", "Together")
    rooms._tally.cache_clear()  # as in another web server
    assert rooms.tally(store, shown) == {"Alone": 1}


def test_polls_of_a_reader_are_heartbeats_ten_seconds_apart(
    client: TestClient, room: RoomRecord, empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, clock, heartbeats = queries.store(), [100.0], list[str]()
    actions.join(store, READER, room.code)
    renew = store.rooms.renew_reader
    monkeypatch.setattr(
        store.rooms, "renew_reader", lambda code, reader: (heartbeats.append(reader), renew(code, reader))
    )
    monkeypatch.setattr(actions, "monotonic", lambda: clock[0])
    before = seen(empty_store, "room_readers", "seen_at")
    for clock[0] in (100.0, 101.0, 109.9, 110.0, 112.0):
        assert poll(client, room.code, READER)[0] == 200
    assert heartbeats == [reader_id(READER, room.code)] * 2
    assert seen(empty_store, "room_readers", "seen_at") > before


def test_polls_of_the_lecturers_browser_keep_the_room_open(
    client: TestClient, room: RoomRecord, empty_store: Store
) -> None:
    before = seen(empty_store, "rooms", "lecturer_at")
    poll(client, room.code, READER)
    poll(client, room.code)
    assert seen(empty_store, "rooms", "lecturer_at") == before
    poll(client, room.code, LECTURER)
    assert seen(empty_store, "rooms", "lecturer_at") > before


@pytest.mark.parametrize("secret", ["", "short", "x" * 5000, "é" * 43, "' OR 1=1 --" + "x" * 32])
def test_an_invalid_cookie_is_no_secret(secret: str) -> None:
    assert browsers.secret_in({browsers.COOKIE: secret}) is None


def test_a_heartbeat_that_fails_does_not_fail_the_poll(
    client: TestClient, room: RoomRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseLocked("locked")

    monkeypatch.setattr(queries.store().rooms, "renew_lecturer", fail)
    assert poll(client, room.code, LECTURER)[0] == 200


def test_every_page_sets_a_cookie_for_this_browser_alone(client: TestClient) -> None:
    first = client.get("/library")
    (secret,) = re.findall(rf"{browsers.COOKIE}=([^;]+)", first.headers["Set-Cookie"])
    assert browsers.secret_in({browsers.COOKIE: secret}) == secret
    assert "HttpOnly" in first.headers["Set-Cookie"] and "SameSite=lax" in first.headers["Set-Cookie"]
    assert f"{browsers.COOKIE}={secret};" in client.get("/").headers["Set-Cookie"]
    client.cookies.clear()
    assert secret not in client.get("/").headers["Set-Cookie"]


def test_the_cookie_of_a_forged_value_is_replaced(client: TestClient) -> None:
    sent = client.get("/", headers={"Cookie": f"{browsers.COOKIE}=forged"}).headers["Set-Cookie"]
    assert "forged" not in sent and browsers.COOKIE in sent


def test_no_proxy_of_the_guide_uses_the_name_of_this_cookie() -> None:
    guide = (ROOT / "docs" / "how-to" / "share-with-others.md").read_text("utf-8")
    assert browsers.COOKIE not in guide
    assert browsers.COOKIE != "fedscape_reader"


@pytest.mark.parametrize("query", ["", "?room=ABCDEFGH", "?room=ABCDEFGH&story=dial"])
def test_learn_is_found_under_its_name(query: str, client: TestClient) -> None:
    answer = client.get(f"/learn{query}", follow_redirects=False)
    assert answer.status_code == 307 and answer.headers["Location"] == f"/{query}"


def test_no_link_to_learn_leads_to_another_host(client: TestClient) -> None:
    for path in (
        "/learn?//elsewhere.test",
        "/learn?/../..//elsewhere.test",
        "/learn?%0d%0aLocation:%20//elsewhere.test",
    ):
        assert client.get(path, follow_redirects=False).headers["Location"].startswith("/?")


def test_neither_secret_nor_name_of_a_reader_is_stored(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people_sign_in(monkeypatch)
    store = queries.store()
    with as_person(OTHER):
        room = actions.open_room(store, LECTURER, {}, "dial.2")
    with as_person(MEMBER):
        actions.join(store, READER, room.code)
        actions.answer(store, READER, room.code, "dial.2", "Alone")
        actions.renew(store, READER, room)
    with as_person(OTHER):
        actions.close(store, LECTURER, room.code)
    logged = [(line.person, line.action, line.subject) for line in empty_store.audit.list()]
    assert logged == [(OTHER.name, "Close a room", f"“{room.code}”"), (OTHER.name, "Open a room", "")]
    content = Path(store.url.removeprefix("sqlite:///")).read_bytes()
    wal = Path(f"{store.url.removeprefix('sqlite:///')}-wal")
    content += wal.read_bytes() if wal.exists() else b""
    for secret in (LECTURER, READER, MEMBER.name):
        assert secret.encode() not in content
    assert OTHER.name.encode() in content


def test_ids_of_a_browser_in_two_rooms_differ() -> None:
    digests = {make(READER, code) for make in (reader_id, lecturer_key) for code in ("ABCDEFGH", "BCDEFGHJ")}
    assert len(digests) == 4


def test_only_the_browser_and_the_person_that_opened_a_room_lead_it(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    with as_person(MEMBER):
        room = actions.open_room(queries.store(), LECTURER, {}, "")
        assert actions.leads(room, LECTURER) and not actions.leads(room, READER)
    with as_person(PEOPLE["admin"]):
        assert not actions.leads(room, LECTURER)
    with as_person(PEOPLE["visitor"]):
        assert not actions.leads(room, LECTURER)
