"""Writes to rooms, each with its permit. The audit log has who opened and closed a room, but no readers."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from app.access import permits
from app.access.browsers import lecturer_key, reader_id
from app.data.lru import Lru
from storage import RoomRecord, StorageError, Store
from storage.rooms import MAX_READERS, MAX_ROOMS

RENEW_S = 10.0
_renewed: Lru[tuple[str, str], float] = Lru(MAX_ROOMS * MAX_READERS)  # (code, secret) -> time of the last heartbeat


def open_room(store: Store, secret: str, position: Mapping[str, Any], question: str) -> RoomRecord:
    """Open a room. Raises StorageError with the reason, like all functions of this module."""
    with permits.allow("teach", store, "Open a room") as person:
        return store.rooms.open(partial(lecturer_key, secret), person.name, dict(position), question)


def move(store: Store, secret: str, code: str, position: Mapping[str, Any], question: str) -> None:
    with permits.allow("steer", store) as person:
        store.rooms.move(code, lecturer_key(secret, code), person.name, dict(position), question)


def show_answers(store: Store, secret: str, code: str, is_shown: bool) -> None:
    with permits.allow("steer", store) as person:
        store.rooms.show_answers(code, lecturer_key(secret, code), person.name, is_shown)


def close(store: Store, secret: str, code: str) -> None:
    with permits.allow("steer", store, "Close a room", of=[code]) as person:
        store.rooms.close(code, lecturer_key(secret, code), person.name)


def leads(room: RoomRecord, secret: str) -> bool:
    """Whether this person and browser opened the room."""
    if permits.refusal("steer") is not None:
        return False
    return room.owner == permits.current().name and room.key == lecturer_key(secret, room.code)


def last_led(store: Store, secret: str) -> str:
    """The code of the latest open room that this person and browser opened, else empty."""
    if permits.refusal("steer") is not None:
        return ""
    codes = store.rooms.led_by(permits.current().name).items()
    return next((code for code, key in codes if key == lecturer_key(secret, code)), "")


def is_counted() -> bool:
    """Whether this person may answer; visitors follow without being counted."""
    return permits.refusal("answer") is None


def join(store: Store, secret: str, code: str) -> None:
    """Add this browser to the readers; like ``leave`` and ``answer``, it does nothing for visitors."""
    if is_counted():
        with permits.allow("answer", store):
            store.rooms.join(code, reader_id(secret, code))


def leave(store: Store, secret: str, code: str) -> None:
    if is_counted():
        with permits.allow("answer", store):
            store.rooms.leave(code, reader_id(secret, code))


def answer(store: Store, secret: str, code: str, question: str, text: str | None) -> bool:
    """Whether nothing is left to store: False if the room is on another question, or does not have this browser."""
    if not is_counted():
        return True
    with permits.allow("answer", store):
        return store.rooms.answer(code, reader_id(secret, code), question, text)


def answers(store: Store, secret: str, code: str) -> dict[str, str]:
    """Return the answers that this browser has given in the room, by question."""
    return store.rooms.answers(code, reader_id(secret, code))


def renew(store: Store, secret: str, room: RoomRecord) -> None:
    """Store a heartbeat of this browser, at most every ``RENEW_S``; one that fails is not repeated."""
    if not _is_due((room.code, secret)):
        return
    with suppress(StorageError):
        if leads(room, secret):
            with permits.allow("steer", store) as person:
                store.rooms.renew_lecturer(room.code, room.key, person.name)
        elif is_counted():
            with permits.allow("answer", store):
                store.rooms.renew_reader(room.code, reader_id(secret, room.code))


def _is_due(browser: tuple[str, str]) -> bool:
    now = monotonic()
    if now - (_renewed.get(browser) or -RENEW_S) < RENEW_S:
        return False
    _renewed.put(browser, now)
    return True
