"""The bar of a room on Learn: open, join, follow, leave and close it, show its code and the answers."""

from functools import partial
from html import escape
from urllib.parse import urlsplit

import streamlit as st

from app.access import permits
from app.components.room_link import room_link
from app.data.rooms import MAX_INPUT_LENGTH, spaced
from app.learn.classroom import INPUT, Classroom, Message, question_id
from app.learn.room_feed import POLL_MS, counts
from app.state.links import link
from app.stories.desk import Reader
from app.stories.story import place_of
from app.wording import plain
from storage import RoomRecord

LOCAL = (
    "This link works on this computer only. Open this page at an address that other computers can reach; if there is "
    "none, start Fedscape with HOST: see docs/how-to/share-with-others.md."
)


def room_bar(classroom: Classroom, reader: Reader) -> None:
    """Draw the row of the room, and below it the message, if any."""
    message = classroom.take_message()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="room"):
        room = classroom.room
        if room is None:
            entrance(classroom, reader, message)
        elif classroom.is_lecturer:
            leading(classroom, room, reader)
        else:
            attending(classroom, room)
    if classroom.room and classroom.is_lecturer and is_local():
        st.caption(LOCAL)
    if message and not message.is_of_code:
        (st.info if message.kind == "info" else st.error)(plain(message.text))


def entrance(classroom: Classroom, reader: Reader, message: Message | None) -> None:
    refusal = permits.refusal("teach")
    if code := classroom.left_room:
        st.button(f"Return to room {spaced(code)}", key="return", on_click=classroom.return_to)
    st.button(
        "Teach a class",
        key="teach",
        type="tertiary",
        on_click=classroom.open,
        args=(reader,),
        disabled=refusal is not None,
        help=refusal or "Open a room: browsers with its link follow your story, scene and dials",
    )
    with st.popover("Join", type="tertiary", key="join"), st.form("join_form", border=False):
        st.text_input("Room code", key=INPUT, max_chars=MAX_INPUT_LENGTH, placeholder="ABCD EFGH")
        if message and message.is_of_code:
            st.error(plain(message.text))
        st.form_submit_button("Join room", key="join_room", on_click=classroom.join)


def leading(classroom: Classroom, room: RoomRecord, reader: Reader) -> None:
    st.html(f'<p class="room">Room <b>{spaced(room.code)}</b></p>', width="content")
    st.code(address(room.code), language=None, width="content")
    connection(classroom, room)
    answers_button(classroom, room, reader)
    st.button("Close room", key="leave_room", type="tertiary", on_click=classroom.leave)


def attending(classroom: Classroom, room: RoomRecord) -> None:
    """The bar of a reader, by which learn.css hides what a reader does not need."""
    state = "following the lecturer" if classroom.is_following else "not following"
    kind = "follows" if classroom.is_following else "attends"
    st.html(f'<p class="room {kind}">Room <b>{spaced(room.code)}</b>: {state}</p>', width="content")
    connection(classroom, room)
    st.button(
        "Stop following" if classroom.is_following else "Follow again",
        key="follow",
        on_click=classroom.follow,
        args=(not classroom.is_following,),
    )
    st.button("Leave room", key="leave_room", type="tertiary", on_click=classroom.leave)


def slide_bar(classroom: Classroom, reader: Reader) -> None:
    """Draw the room on a slide: the address to join, the counts, and buttons with keys: J the code, A the answers."""
    room, message = classroom.room, classroom.take_message()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="slide_room"):
        if message:
            st.html(f'<p class="room" role="status">{escape(message.text)}</p>', width="content")
        if room is None:
            return
        if classroom.is_lecturer:
            st.html(f'<p class="room">{place_to_join()} · <b>{spaced(room.code)}</b></p>', width="content")
        connection(classroom, room)
        if classroom.is_lecturer:
            st.button(
                "Hide code" if classroom.shows_code else "Show code",
                key="code",
                on_click=classroom.show_code,
                args=(not classroom.shows_code,),
                shortcut="J",
            )
            answers_button(classroom, room, reader, "A")


def code_slide(room: RoomRecord) -> None:
    """The address and the code, in letters as large as the slide."""
    where = place_to_join()
    st.html(
        f'<p>Open</p><p class="where" style="--letters: {len(where)}">{where}</p>'
        f"<p>press Join, and enter</p><h1>{spaced(room.code)}</h1>"
    )
    if is_local():
        st.caption(LOCAL)


def connection(classroom: Classroom, room: RoomRecord) -> None:
    """Poll the room. Only the lecturer sees the counts."""
    text = counts(room) if classroom.is_lecturer else ""
    room_link(room.code, version=room.version if classroom.follows else None, text=text, wait_ms=POLL_MS)


def answers_button(classroom: Classroom, room: RoomRecord, reader: Reader, shortcut: str | None = None) -> None:
    """Draw the button, unless another tab has led the room to another question."""
    if room.question and room.question != question_id(reader, place_of(reader.desk.story, reader.desk.place or {})):
        st.html('<p class="room">The room is on another question</p>', width="content")
    elif room.question:
        st.button(
            "Hide answers" if room.shows_answers else "Show answers",
            key="answers",
            on_click=partial(classroom.show, not room.shows_answers),
            shortcut=shortcut,
        )


def is_local() -> bool:
    """Whether this browser's address works on this computer only."""
    return (urlsplit(st.context.url or "").hostname or "") in ("localhost", "127.0.0.1", "::1")


def place_to_join() -> str:
    """``fedscape.example.org/learn``, as one types it."""
    return escape(f"{urlsplit(st.context.url or '').netloc}{link('learn')}")


def address(code: str) -> str:
    """Return the link for the class, with the host name in this browser's address bar."""
    here = urlsplit(st.context.url or "")
    origin = f"{here.scheme}://{here.netloc}" if here.netloc else ""
    return f"{origin}{link('learn', room=code)}"
