"""The room that a page of Learn is in: who leads it, the lecturer's position, and the reader's answers.

The lecturer's page stores each new position. A page that follows reruns when the version of the room has changed, and
moves to the new position. The session stores code and secret, since ``st.context.cookies`` are those of the
connection's first request.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import streamlit as st

from app.access import browsers
from app.actions import rooms as actions
from app.data import queries, rooms
from app.state import url_state
from app.stories import stories
from app.stories.desk import Desk, Reader
from app.stories.questions import Choice, Guess, Question
from app.stories.story import Place, place_of, scene_at
from storage import RoomNotFound, RoomRecord, StorageError

INPUT = "room_code"  # the key of the field for a code
CLOSED = "The lecturer closed the room. You can continue on your own."
EXPIRED = "Your room is closed."
NO_CODE = "Type the eight letters of the code."
_KEY = "classroom"


@dataclass
class Message:
    """An error or information, shown to the reader."""

    kind: Literal["info", "error"]
    text: str
    is_of_code: bool = False  # about the code in the field


@dataclass
class Classroom:
    """The room of this visit, if any. ``room`` is read at the start of each run of the page."""

    secret: str
    code: str = ""
    room: RoomRecord | None = None
    is_lecturer: bool = False
    is_following: bool = True
    shows_code: bool = False  # in large letters instead of the slide
    left_room: str = ""  # the code of a room that this browser opened before this visit, and can return to
    message: Message | None = None
    _position: Mapping[str, Any] | None = None  # the last position that this page has stored or moved to
    _scene: tuple[str, int] | None = None  # story and scene there, once drawn
    _answers: dict[str, str | None] = field(default_factory=dict)  # stored, by question
    _given: dict[str, str] = field(default_factory=dict)  # stored before this visit, and not restored yet

    @property
    def follows(self) -> bool:
        """Whether the page moves along with the lecturer."""
        return not self.is_lecturer and self.is_following

    def shown_answers(self, reader: Reader, place: Place) -> tuple[Question, RoomRecord] | None:
        """Return the question of this page and the room if the lecturer shows the answers to it, else None."""
        room, scene = self.room, scene_at(reader.desk.story, place)
        if room is None or not room.shows_answers or room.question != question_id(reader, place):
            return None
        return (scene.question, room) if scene and scene.question else None

    def take_message(self) -> Message | None:
        """Return the message to show, once."""
        message, self.message = self.message, None
        return message

    def tell(self, text: str) -> None:
        """Show the information, unless there is another message already."""
        self.message = self.message or Message("info", text)

    # At the start and at the end of a run of the page.

    def arrive(self, code: str | None) -> None:
        """Enter the room in the address."""
        if code and rooms.parse_code(code) != self.code:
            self.enter(code)

    def attend(self, reader: Reader) -> None:
        """Read the room, and move to the lecturer's position if it has changed."""
        self.room = self._read() if self.code else None
        url_state.choose(room=self.code or None)
        if self.room is None or self.room.position == self._position:
            return
        if self.follows or self._position is None:
            self._position, self._scene = self.room.position, None
            take_over(reader, self.room.position)

    def report(self, reader: Reader, place: Place) -> None:
        """Store the lecturer's position, or the reader's answer, if it has changed.

        A reader who has moved to another scene than the lecturer's no longer follows.
        """
        if self.room is None:
            return
        with self._errors_shown():
            if self.is_lecturer:
                self._move(reader, place)
            else:
                here = reader.slug, reader.desk.scene
                self._scene = self._scene or here
                self.is_following &= here == self._scene
                self._answer(self.room, reader, place)

    # Called when a button is pressed.

    def open(self, reader: Reader) -> None:
        """Open a room at the position of this page, and lead it."""
        place = place_of(reader.desk.story, reader.desk.place or {})
        position = position_of(reader, place)
        with self._errors_shown():
            room = actions.open_room(queries.store(), self.secret, position, question_id(reader, place))
            self.code, self.is_lecturer, self._position = room.code, True, position

    def join(self) -> None:
        """Enter the room of the code in the field."""
        self.enter(str(st.session_state.get(INPUT, "")))
        if self.message:
            self.message = replace(self.message, is_of_code=True)

    def return_to(self) -> None:
        """Lead the room again that this browser opened before."""
        self.enter(self.left_room)

    def enter(self, text: str) -> None:
        """Enter a room: as its lecturer where this browser opened it, else as a reader."""
        if not text.strip():
            self.message = Message("error", NO_CODE)
            return
        code = rooms.parse_code(text)
        with self._errors_shown():
            room = queries.store().rooms.get(code) if code else None
            if code is None or room is None:
                self.left_room = "" if self.left_room == code else self.left_room
                self.message = Message("error", _not_found(text, code))
                return
            is_lecturer = actions.leads(room, self.secret)
            if not is_lecturer:
                actions.join(queries.store(), self.secret, code)
            given = {} if is_lecturer else actions.answers(queries.store(), self.secret, code)
            self._forget()
            self.code, self.is_lecturer, self._given = code, is_lecturer, given
            self.left_room = "" if self.left_room == code else self.left_room

    def follow(self, is_following: bool) -> None:
        """Stop following, or follow again from the lecturer's current position."""
        self.is_following = is_following
        self._position = None if is_following else self._position

    def show(self, is_shown: bool) -> None:
        """Show or hide the answers on all pages of the room."""
        self.shows_code = False
        with self._errors_shown():
            actions.show_answers(queries.store(), self.secret, self.code, is_shown)

    def show_code(self, is_shown: bool) -> None:
        """Show or hide the code in large letters on the lecturer's slide."""
        self.shows_code = is_shown

    def clear_slide(self) -> None:
        """Hide the code or the answers that the lecturer of this page shows instead of the figure."""
        self.shows_code = False
        if self.is_lecturer and self.room and self.room.shows_answers:
            self.show(False)

    def leave(self) -> None:
        """Close the room as its lecturer, or leave it as a reader."""
        end = actions.close if self.is_lecturer else actions.leave
        with self._errors_shown():
            end(queries.store(), self.secret, self.code)
            self._forget()

    def _read(self) -> RoomRecord | None:
        """Read the room: from the database for the lecturer, who has just changed it, else from the cache."""
        found = self.room  # kept if the database cannot be read now
        with self._errors_shown():
            store = queries.store()
            found = store.rooms.get(self.code) if self.is_lecturer else rooms.room(store, self.code)
            if found is None:
                raise RoomNotFound(self.code)
        return found

    def _move(self, reader: Reader, place: Place) -> None:
        position = position_of(reader, place)
        if position != self._position:
            actions.move(queries.store(), self.secret, self.code, position, question_id(reader, place))
            self._position, self.room, self.shows_code = position, self._read(), False

    def _answer(self, room: RoomRecord, reader: Reader, place: Place) -> None:
        """Store the answer to the room's question, which the reader may have chosen before the lecturer came to it."""
        question = question_id(reader, place)
        self._restore(question, reader.desk, place)
        guess = reader.desk.guess_at(place)
        text = None if guess is None else answer_text(guess)
        is_due = question and question == room.question and text != self._answers.get(question)
        if is_due and self._is_stored(question, text):
            self._answers[question] = text

    def _restore(self, question: str, desk: Desk, place: Place) -> None:
        """Choose the answer that this browser gave before a reload, unless there is one already."""
        text, scene = self._given.pop(question, None), scene_at(desk.story, place)
        if text is None or scene is None or scene.question is None or desk.guess_at(place) is not None:
            return
        asked = scene.question
        possible: Sequence[Guess] = asked.answers if isinstance(asked, Choice) else asked.stops
        for guess in possible:
            if answer_text(guess) == text:
                desk.guess(place, guess)
                self._answers[question] = text

    def _is_stored(self, question: str, text: str | None) -> bool:
        """Store an answer; False if the lecturer has moved on meanwhile. Join again if another tab left the room."""
        store = queries.store()
        if actions.answer(store, self.secret, self.code, question, text):
            return True
        room = store.rooms.get(self.code)
        if room is None:
            raise RoomNotFound(self.code)
        if room.question != question:
            return False
        actions.join(store, self.secret, self.code)
        return actions.answer(store, self.secret, self.code, question, text)

    @contextmanager
    def _errors_shown(self) -> Iterator[None]:
        """Turn an error into a message. A closed room is information, not an error."""
        try:
            yield
        except RoomNotFound:
            self._forget(Message("info", EXPIRED if self.is_lecturer else CLOSED))
        except StorageError as error:
            self.message = Message("error", str(error))

    def _forget(self, message: Message | None = None) -> None:
        self.code, self.room, self.is_lecturer, self.is_following, self.shows_code = "", None, False, True, False
        self._position, self._scene, self._answers, self._given, self.message = None, None, {}, {}, message
        url_state.choose(room=None)


def classroom() -> Classroom:
    """Return the classroom of this visit."""
    if _KEY not in st.session_state:
        cookies = {name: str(value) for name, value in st.context.cookies.items()}
        known = browsers.secret_in(cookies)
        left = ""
        if known:
            with suppress(StorageError):  # the page gives the reason where it needs the database
                left = actions.last_led(queries.store(), known)
        st.session_state[_KEY] = Classroom(known or browsers.new_secret(), left_room=left)
    found: Classroom = st.session_state[_KEY]
    return found


def position_of(reader: Reader, place: Place) -> dict[str, Any]:
    """Return story, scene and dials, as a room stores them."""
    return {"story": reader.slug, "scene": reader.desk.scene, "dials": dict(place)}


def take_over(reader: Reader, position: Mapping[str, Any]) -> None:
    """Move the page to a position from the database: unknown stories, scenes and stops are ignored. Nothing trains."""
    slug, scene, given = (position.get(name) for name in ("story", "scene", "dials"))
    if not isinstance(slug, str) or slug not in stories():
        return
    if slug != reader.slug:
        reader.open(slug)
    desk = reader.desk
    desk.pause()
    dials = given.items() if isinstance(given, dict) else ()
    desk.place = place_of(desk.story, {name: stop for name, stop in dials if isinstance(stop, str)})
    if isinstance(scene, int) and 0 <= scene < len(desk.story.scenes):
        desk.scene = scene


def question_id(reader: Reader, place: Place) -> str:
    """Return the id of the question there, such as ``dial.2``; empty where there is none."""
    scene = scene_at(reader.desk.story, place)
    return f"{reader.slug}.{list(reader.desk.story.scenes).index(scene)}" if scene and scene.question else ""


def answer_text(answer: str | float) -> str:
    """Return an answer as a room stores it."""
    return answer if isinstance(answer, str) else f"{answer:g}"


def answers_of(question: Question) -> dict[str, str]:
    """Return all possible answers in order: as a room stores them -> as they are shown."""
    if isinstance(question, Choice):
        return {answer: answer for answer in question.answers}
    return {answer_text(stop): question.say(stop) for stop in question.stops}


def _not_found(text: str, code: str | None) -> str:
    if code is None:
        return f"“{text[:20]}” is not the code of a room: it has eight letters, for example “ABCD EFGH”."
    return (
        f"There is no room with the code {rooms.spaced(code)}. Check the letters; the room may also have been closed."
    )
