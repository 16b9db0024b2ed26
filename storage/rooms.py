"""Rooms: the position of a lecturer in Learn, which the browsers of a class follow, and the answers of the class.

No names of readers are stored: a browser is a digest of the secret in its cookie. Rooms expire.
"""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from storage.database import Database, hold_lock
from storage.errors import RoomFull, RoomNotFound, RoomsFull, StorageError
from storage.models import Room, RoomAnswer, RoomReader, now, to_json
from storage.records import RoomRecord

ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ"  # without I, L, O and U, which are easily confused
CODE_LENGTH = 8
MAX_ROOMS, MAX_READERS = 50, 200
EXPIRES = timedelta(hours=12)  # since the lecturer's last poll
STALE = timedelta(minutes=10)  # since the last poll; then a new room or reader may replace it
PRESENT = timedelta(seconds=30)  # since a reader's last poll
MAX_POSITION_BYTES = 2000  # of a position, as JSON
MAX_CHARACTERS = 200  # of a question's id, and of an answer
_SHOWN = "answers"  # beside the position in its column: the tally that the lecturer shows
LOCK = 0x6665_6473_726F_6F6D  # the key of an advisory lock of PostgreSQL


class Rooms:
    """Access to the rooms. A room changes only for the ``key`` and ``owner`` with which it was opened."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(
        self, key_of: Callable[[str], str], owner: str, position: dict[str, Any], question: str = ""
    ) -> RoomRecord:
        """Opens a room with a new code; ``key_of`` makes its key. Raises RoomsFull while all others are in use."""
        _check(position, question)
        at = now()
        with self._database.write() as connection:
            hold_lock(connection, LOCK)
            connection.execute(sa.delete(Room).where(~_is_open(at)))
            _make_space(connection, at)
            code = _unused_code(connection)
            new = sa.insert(Room).values(code=code, key=key_of(code), owner=owner, created_at=at, lecturer_at=at)
            new = new.values(version=1, position=position, question=question, shows_answers=False)
            connection.execute(new)
            found = _record(connection, code)
            assert found is not None  # in the same transaction
            return found

    def get(self, code: str) -> RoomRecord | None:
        """The room and its counts; None if it was closed, has expired or never existed."""
        with self._database.read() as connection:
            return _record(connection, code)

    def led_by(self, owner: str) -> dict[str, str]:
        """The codes of this owner's open rooms, the latest first, each with its key: the digest of a secret."""
        query = sa.select(Room.code, Room.key).where(Room.owner == owner, _is_open(now()))
        with self._database.read() as connection:
            return {row[0]: row[1] for row in connection.execute(query.order_by(Room.created_at.desc()))}

    def move(self, code: str, key: str, owner: str, position: dict[str, Any], question: str = "") -> None:
        """Stores the lecturer's new position, and hides the answers. Raises RoomNotFound."""
        _check(position, question)
        with self._database.write() as connection:
            _steer(connection, code, key, owner, position=position, question=question, shows_answers=False)

    def show_answers(self, code: str, key: str, owner: str, is_shown: bool) -> None:
        """Shows the answers given until now, or hides them. Raises RoomNotFound."""
        with self._database.write() as connection:
            _steer(connection, code, key, owner, shows_answers=is_shown)
            room = connection.execute(sa.select(Room.position, Room.question).where(Room.code == code)).one()
            position = _without_tally(room.position)
            if is_shown:
                position[_SHOWN] = _tally(connection, code, room.question)
            connection.execute(sa.update(Room).where(Room.code == code).values(position=position))

    def close(self, code: str, key: str, owner: str) -> None:
        with self._database.write() as connection:
            if connection.execute(sa.delete(Room).where(*_led_by(code, key, owner))).rowcount == 0:
                raise RoomNotFound(code)

    def renew_lecturer(self, code: str, key: str, owner: str) -> None:
        """Stores a heartbeat of the lecturer's browser; nothing if it does not lead this room."""
        with self._database.write() as connection:
            connection.execute(sa.update(Room).where(*_led_by(code, key, owner)).values(lecturer_at=now()))

    def join(self, code: str, reader: str) -> None:
        """Adds a reader, once. Raises RoomNotFound, and RoomFull if all others have polled lately."""
        at = now()
        with self._database.write() as connection:
            row = sa.select(Room.code).where(Room.code == code, _is_open(at))
            if connection.scalar(row.with_for_update()) is None:
                raise RoomNotFound(code)
            if _renew(connection, code, reader):
                return
            in_room = RoomReader.room == code
            if _count(connection, RoomReader, in_room) >= MAX_READERS:
                connection.execute(sa.delete(RoomReader).where(in_room, RoomReader.seen_at <= at - STALE))
            if _count(connection, RoomReader, in_room) >= MAX_READERS:
                raise RoomFull(MAX_READERS)
            connection.execute(sa.insert(RoomReader).values(room=code, reader=reader, seen_at=at))

    def leave(self, code: str, reader: str) -> None:
        """Deletes a reader with the reader's answers."""
        with self._database.write() as connection:
            connection.execute(sa.delete(RoomReader).where(RoomReader.room == code, RoomReader.reader == reader))

    def renew_reader(self, code: str, reader: str) -> None:
        """Stores a heartbeat of a reader, in one statement that locks no other row; nothing without ``join``."""
        with self._database.write() as connection:
            _renew(connection, code, reader)

    def answer(self, code: str, reader: str, question: str, answer: str | None) -> bool:
        """Stores the reader's answer, or deletes it for None.

        Returns False, and stores nothing, unless the room is open, at this question, and has this reader.
        """
        if len(answer or "") > MAX_CHARACTERS:
            raise StorageError(f"an answer has at most {MAX_CHARACTERS} characters, not {len(answer or '')}")
        one = (RoomAnswer.room == code, RoomAnswer.question == question, RoomAnswer.reader == reader)
        with self._database.write() as connection:
            joined = sa.select(RoomReader.reader).join(Room, Room.code == RoomReader.room)
            joined = joined.where(Room.code == code, RoomReader.reader == reader, _is_open(now()))
            joined = joined.where(Room.question == question, Room.question != "")
            # The lock makes two tabs of a reader wait for each other.
            if connection.scalar(joined.with_for_update(of=RoomReader)) is None:
                return False
            connection.execute(sa.delete(RoomAnswer).where(*one))
            if answer is not None:
                values = {"room": code, "question": question, "reader": reader, "answer": answer}
                connection.execute(sa.insert(RoomAnswer).values(values))
            return True

    def answers(self, code: str, reader: str) -> dict[str, str]:
        """The reader's answers, by question."""
        with self._database.read() as connection:
            query = sa.select(RoomAnswer.question, RoomAnswer.answer)
            rows = connection.execute(query.where(RoomAnswer.room == code, RoomAnswer.reader == reader))
            return {row[0]: row[1] for row in rows}

    def tally(self, code: str) -> dict[str, int]:
        """The number of readers by their answer when the answers were shown; empty while they are hidden."""
        with self._database.read() as connection:
            position = connection.scalar(sa.select(Room.position).where(Room.code == code))
            return dict((position or {}).get(_SHOWN, {}))


def new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))


def _unused_code(connection: sa.Connection) -> str:
    used = set(connection.scalars(sa.select(Room.code)))
    code = new_code()
    while code in used:
        code = new_code()
    return code


def _make_space(connection: sa.Connection, at: datetime) -> None:
    """Deletes the room whose lecturer polled longest ago, if all are taken. Raises RoomsFull if it is not stale."""
    rooms = connection.execute(sa.select(Room.code, Room.lecturer_at).order_by(Room.lecturer_at)).all()
    if len(rooms) < MAX_ROOMS:
        return
    if rooms[0].lecturer_at > at - STALE:
        raise RoomsFull(MAX_ROOMS)
    connection.execute(sa.delete(Room).where(Room.code == rooms[0].code))


def _record(connection: sa.Connection, code: str) -> RoomRecord | None:
    at = now()
    room = connection.execute(sa.select(*Room.__table__.columns).where(Room.code == code, _is_open(at))).one_or_none()
    if room is None:
        return None
    to_question = sa.and_(RoomAnswer.room == code, RoomAnswer.question == room.question)
    has_answered = RoomReader.reader.in_(sa.select(RoomAnswer.reader).where(to_question))
    is_counted = sa.and_(RoomReader.room == code, (RoomReader.seen_at >= at - PRESENT) | has_answered)
    return RoomRecord(
        **dict(room._mapping) | {"position": _without_tally(room.position)},
        readers=_count(connection, RoomReader, is_counted),
        answered=_count(connection, RoomAnswer, to_question),
    )


def _steer(connection: sa.Connection, code: str, key: str, owner: str, **values: Any) -> None:
    change = sa.update(Room).where(*_led_by(code, key, owner))
    change = change.values(version=Room.version + 1, lecturer_at=now(), **values)
    if connection.execute(change).rowcount == 0:
        raise RoomNotFound(code)


def _tally(connection: sa.Connection, code: str, question: str) -> dict[str, int]:
    query = sa.select(RoomAnswer.answer, sa.func.count()).group_by(RoomAnswer.answer)
    rows = connection.execute(query.where(RoomAnswer.room == code, RoomAnswer.question == question))
    return {row[0]: row[1] for row in rows}


def _without_tally(position: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in position.items() if name != _SHOWN}


def _is_open(at: datetime) -> sa.ColumnElement[bool]:
    """Whether a room has not expired.

    A time far in the future is from a restored backup or a clock that was set back.
    """
    return Room.lecturer_at.between(at - EXPIRES, at + EXPIRES)


def _led_by(code: str, key: str, owner: str) -> tuple[sa.ColumnElement[bool], ...]:
    return Room.code == code, Room.key == key, Room.owner == owner, _is_open(now())


def _renew(connection: sa.Connection, code: str, reader: str) -> bool:
    """Whether the room has this reader."""
    own = sa.update(RoomReader).where(RoomReader.room == code, RoomReader.reader == reader)
    return connection.execute(own.values(seen_at=now())).rowcount > 0


def _count(connection: sa.Connection, of: Any, where: sa.ColumnElement[bool]) -> int:
    return int(connection.scalar(sa.select(sa.func.count()).select_from(of).where(where)) or 0)


def _check(position: dict[str, Any], question: str) -> None:
    size = len(to_json(position).encode())
    if size > MAX_POSITION_BYTES:
        raise StorageError(f"a position in a room has at most {MAX_POSITION_BYTES} bytes, not {size}")
    if len(question) > MAX_CHARACTERS:
        raise StorageError(f"the id of a question has at most {MAX_CHARACTERS} characters, not {len(question)}")
