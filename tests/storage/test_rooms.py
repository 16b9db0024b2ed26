"""Rooms: their codes, their limits, who leads them, and the answers of a class."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from storage import RoomFull, RoomNotFound, RoomRecord, RoomsFull, StorageError, Store, rooms
from storage.models import now

WAIT_S = 60
HERE, THERE = {"story": "dial", "dials": {"share": "alone"}}, {"story": "dial", "dials": {"share": "together"}}
LECTURER = ("key of the lecturer", "ada@lab.test")
Later = Callable[[timedelta], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """``later(time)`` sets the clock of the rooms ahead."""

    def set_ahead(by: timedelta) -> None:
        monkeypatch.setattr(rooms, "now", lambda: now() + by)

    return set_ahead


@pytest.fixture
def room(store: Store) -> RoomRecord:
    return opened(store, "dial.2")


def opened(store: Store, question: str = "") -> RoomRecord:
    key, owner = LECTURER
    return store.rooms.open(lambda code: key, owner, HERE, question)


def test_a_new_room_has_a_code_without_look_alikes(store: Store, room: RoomRecord) -> None:
    assert len(room.code) == rooms.CODE_LENGTH and set(room.code) <= set(rooms.ALPHABET)
    assert not set(rooms.ALPHABET) & set("ILOU01")
    assert store.rooms.get(room.code) == room
    assert (room.version, room.position, room.shows_answers, room.readers, room.answered) == (1, HERE, False, 0, 0)


def test_a_code_in_use_is_not_given_again(store: Store, room: RoomRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([room.code, room.code, "ABCDEFGH"])
    monkeypatch.setattr(rooms, "new_code", lambda: next(codes))
    assert opened(store).code == "ABCDEFGH"


def test_the_key_may_depend_on_the_code(store: Store) -> None:
    room = store.rooms.open(lambda code: f"key of {code}", "", HERE)
    store.rooms.move(room.code, f"key of {room.code}", "", THERE)


def test_each_change_of_the_lecturer_is_a_new_version(store: Store, room: RoomRecord) -> None:
    store.rooms.show_answers(room.code, *LECTURER, is_shown=True)
    shown = store.rooms.get(room.code)
    store.rooms.move(room.code, *LECTURER, THERE, "dial.3")
    moved = store.rooms.get(room.code)
    assert shown is not None and (shown.version, shown.shows_answers) == (2, True)
    assert moved is not None and (moved.version, moved.shows_answers) == (3, False)
    assert (moved.position, moved.question) == (THERE, "dial.3")


@pytest.mark.parametrize("other", [("another key", LECTURER[1]), (LECTURER[0], "bob@lab.test")])
def test_only_key_and_owner_together_lead_a_room(other: tuple[str, str], store: Store, room: RoomRecord) -> None:
    attempts: list[Callable[[], None]] = [
        lambda: store.rooms.move(room.code, *other, THERE),
        lambda: store.rooms.show_answers(room.code, *other, is_shown=True),
        lambda: store.rooms.close(room.code, *other),
    ]
    for attempt in attempts:
        with pytest.raises(RoomNotFound):
            attempt()
    assert store.rooms.get(room.code) == room


def test_open_rooms_are_found_by_their_owner_with_their_keys(store: Store, room: RoomRecord, later: Later) -> None:
    latest = opened(store)
    assert list(store.rooms.led_by(LECTURER[1]).items()) == [(latest.code, LECTURER[0]), (room.code, LECTURER[0])]
    assert store.rooms.led_by("eve@lab.test") == {}
    later(timedelta(hours=13))
    assert store.rooms.led_by(LECTURER[1]) == {}


def test_a_closed_room_is_gone_with_its_readers_and_answers(store: Store, room: RoomRecord) -> None:
    store.rooms.join(room.code, "one")
    store.rooms.answer(room.code, "one", "dial.2", "Alone")
    assert shown(store, room) == {"Alone": 1}
    store.rooms.close(room.code, *LECTURER)
    assert store.rooms.get(room.code) is None
    assert store.rooms.tally(room.code) == {}
    with pytest.raises(RoomNotFound):
        store.rooms.join(room.code, "one")


def test_a_room_expires_without_its_lecturer(store: Store, room: RoomRecord, later: Later) -> None:
    later(rooms.EXPIRES - timedelta(minutes=1))
    store.rooms.renew_lecturer(room.code, *LECTURER)
    later(2 * rooms.EXPIRES - timedelta(minutes=2))
    assert store.rooms.get(room.code) is not None
    later(2 * rooms.EXPIRES)
    assert store.rooms.get(room.code) is None
    with pytest.raises(RoomNotFound):
        store.rooms.move(room.code, *LECTURER, THERE)


def test_opening_a_room_deletes_those_that_have_expired(store: Store, room: RoomRecord, later: Later) -> None:
    later(rooms.EXPIRES + timedelta(seconds=1))
    opened(store)
    later(timedelta())
    assert store.rooms.get(room.code) is None


def test_a_room_from_the_future_has_expired(store: Store, room: RoomRecord, later: Later) -> None:
    later(-rooms.EXPIRES - timedelta(minutes=1))
    assert store.rooms.get(room.code) is None


def test_the_number_of_rooms_is_limited_and_a_stale_one_is_replaced(
    store: Store, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "MAX_ROOMS", 2)
    stale, active = opened(store), opened(store)
    with pytest.raises(RoomsFull, match="limit of 2 rooms"):
        opened(store)
    later(rooms.STALE + timedelta(seconds=1))
    store.rooms.renew_lecturer(active.code, *LECTURER)
    new = opened(store)
    kept = [room.code for room in (stale, active, new) if store.rooms.get(room.code)]
    assert kept == [active.code, new.code]
    with pytest.raises(RoomsFull):
        opened(store)


def test_rooms_opened_at_the_same_time_stay_within_the_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "MAX_ROOMS", 3)
    outcomes: list[object] = []

    def open_one() -> None:
        try:
            outcomes.append(opened(store))
        except RoomsFull as error:
            outcomes.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["RoomRecord"] * 3 + ["RoomsFull"] * 3


def test_a_reader_joins_once_and_can_leave(store: Store, room: RoomRecord) -> None:
    for reader in ("one", "two", "one"):
        store.rooms.join(room.code, reader)
    assert readers(store, room) == 2
    store.rooms.answer(room.code, "two", "dial.2", "Alone")
    store.rooms.leave(room.code, "two")
    assert readers(store, room) == 1 and shown(store, room) == {}


def test_the_number_of_readers_is_limited_and_stale_ones_are_replaced(
    store: Store, room: RoomRecord, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "MAX_READERS", 2)
    for reader in ("one", "two"):
        store.rooms.join(room.code, reader)
    with pytest.raises(RoomFull, match="2 readers"):
        store.rooms.join(room.code, "three")
    store.rooms.join(room.code, "two")
    later(rooms.STALE + timedelta(seconds=1))
    store.rooms.renew_reader(room.code, "two")
    store.rooms.join(room.code, "three")
    assert readers(store, room) == 2
    assert store.rooms.answer(room.code, "one", "dial.2", "Alone") is False


def test_readers_are_counted_while_they_poll_or_once_they_have_answered(
    store: Store, room: RoomRecord, later: Later
) -> None:
    for reader in ("stale", "answered", "polls"):
        store.rooms.join(room.code, reader)
    store.rooms.answer(room.code, "answered", "dial.2", "Alone")
    later(rooms.PRESENT + timedelta(seconds=1))
    store.rooms.renew_reader(room.code, "polls")
    now_there = store.rooms.get(room.code)
    assert now_there is not None and (now_there.readers, now_there.answered) == (2, 1)


def test_a_heartbeat_adds_no_reader(store: Store, room: RoomRecord) -> None:
    store.rooms.renew_reader(room.code, "another")
    assert readers(store, room) == 0


def test_the_last_answer_of_each_reader_counts(store: Store, room: RoomRecord) -> None:
    for reader in ("one", "two", "three"):
        store.rooms.join(room.code, reader)
    for reader, answer in (
        ("one", "Alone"),
        ("two", "Alone"),
        ("one", "Together"),
        ("three", "Alone"),
        ("three", None),
    ):
        assert store.rooms.answer(room.code, reader, "dial.2", answer)
    assert shown(store, room) == {"Alone": 1, "Together": 1}
    assert store.rooms.answers(room.code, "one") == {"dial.2": "Together"}
    assert store.rooms.answers(room.code, "three") == store.rooms.answers("ABCDEFGH", "one") == {}
    now_there = store.rooms.get(room.code)
    assert now_there is not None and (now_there.readers, now_there.answered) == (3, 2)


def test_only_readers_answer_and_only_the_current_question(store: Store, room: RoomRecord) -> None:
    store.rooms.join(room.code, "one")
    assert not store.rooms.answer(room.code, "another", "dial.2", "Alone")
    assert not store.rooms.answer(room.code, "one", "dial.3", "Alone")
    assert not store.rooms.answer("ABCDEFGH", "one", "dial.2", "Alone")
    store.rooms.move(room.code, *LECTURER, THERE)
    assert not store.rooms.answer(room.code, "one", "", "Alone")
    assert shown(store, room) == {}


def test_positions_questions_and_answers_are_bounded(store: Store, room: RoomRecord) -> None:
    large = {"dials": "x" * rooms.MAX_POSITION_BYTES}
    long = "x" * (rooms.MAX_CHARACTERS + 1)
    attempts: list[Callable[[], object]] = [
        lambda: store.rooms.open(str, "", large),
        lambda: store.rooms.move(room.code, *LECTURER, large),
        lambda: store.rooms.move(room.code, *LECTURER, HERE, long),
        lambda: store.rooms.answer(room.code, "one", "dial.2", long),
    ]
    for attempt in attempts:
        with pytest.raises(StorageError, match="at most"):
            attempt()
    assert store.rooms.get(room.code) == room


def test_two_tabs_of_a_reader_answer_at_the_same_time(store: Store, room: RoomRecord) -> None:
    store.rooms.join(room.code, "one")
    stored: list[bool] = []

    def answer(text: str) -> None:
        stored.append(store.rooms.answer(room.code, "one", "dial.2", text))

    threads = [threading.Thread(target=answer, args=(f"{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert stored == [True] * 6
    assert list(shown(store, room).values()) == [1]


def test_answers_given_later_are_counted_once_the_answers_are_shown_again(store: Store, room: RoomRecord) -> None:
    for reader in ("one", "two"):
        store.rooms.join(room.code, reader)
    store.rooms.answer(room.code, "one", "dial.2", "Alone")
    assert store.rooms.tally(room.code) == {}
    assert shown(store, room) == {"Alone": 1}
    store.rooms.answer(room.code, "two", "dial.2", "Together")
    late = store.rooms.get(room.code)
    assert store.rooms.tally(room.code) == {"Alone": 1}
    assert late is not None and (late.answered, late.position) == (2, HERE)
    store.rooms.show_answers(room.code, *LECTURER, is_shown=False)
    assert store.rooms.tally(room.code) == {}
    assert shown(store, room) == {"Alone": 1, "Together": 1}
    store.rooms.move(room.code, *LECTURER, HERE, "dial.3")
    assert store.rooms.tally(room.code) == {}


def shown(store: Store, room: RoomRecord) -> dict[str, int]:
    """The answers to the current question, after the lecturer has shown them."""
    store.rooms.show_answers(room.code, *LECTURER, is_shown=True)
    return store.rooms.tally(room.code)


def readers(store: Store, room: RoomRecord) -> int:
    found = store.rooms.get(room.code)
    assert found is not None
    return found.readers
