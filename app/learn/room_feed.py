"""The response to the poll of a browser in a room: the version of the room, and how many have answered."""

from app.wording import plural
from storage import RoomRecord

POLL_MS = 1000


def feed(room: RoomRecord) -> dict[str, object]:
    return {"version": room.version, "text": counts(room), "wait_ms": POLL_MS}


def counts(room: RoomRecord) -> str:
    """``12 of 28 answered``; without a question, ``28 readers``."""
    return f"{room.answered} of {room.readers} answered" if room.question else plural(room.readers, "reader")
