"""Learn in a room: the lecturer's page, and the pages of readers who follow, answer, leave and come back."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.actions import rooms as actions
from app.data import queries, rooms
from app.learn import answers, classroom, room_bar, room_feed
from app.learn.classroom import Classroom, answers_of, take_over
from app.stories import stories
from app.stories.desk import Reader
from app.stories.questions import Choice, Estimate
from storage import DatabaseLocked, Store
from storage.rooms import Rooms
from tests.app.pages import open_page, visit, words
from tests.support.signing_in import PEOPLE, people_sign_in

STORY, OTHER_STORY = "one-model", "alone"
SECOND = stories()[STORY].scenes[1]
WHICH = Choice("Which?", ("Alone", "Together", "Neither"), "Alone")
HOW_MUCH = Estimate("How much?", np.array([0.4]), "1 seed", lambda run: run, stops=(0.0, 0.25, 0.5))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, empty_store: Store) -> None:
    """A page that runs reads the room now, not up to a second ago."""
    ticks = count()
    monkeypatch.setattr(rooms, "tick", lambda: next(ticks))


@pytest.fixture
def lecturer() -> AppTest:
    return pressed(open_page("learn", story=STORY), "teach")


def reader(lecturer: AppTest, **address: object) -> AppTest:
    return open_page("learn", room=room_of(lecturer).code, **address)


def room_of(page: AppTest) -> Classroom:
    found: Classroom = page.session_state["classroom"]
    return found


def pressed(page: AppTest, key: str) -> AppTest:
    page.button(key=key).click().run()
    assert not page.exception
    return page


def again(page: AppTest) -> AppTest:
    """Runs the page as its browser does when the version of the room has changed."""
    page.run()
    assert not page.exception
    return page


def moved(page: AppTest, scene: str) -> None:
    page.segmented_control(key="scene").set_value(scene).run()
    assert not page.exception


def buttons(page: AppTest) -> list[str]:
    return [button.label for button in page.button]


def test_teach_a_class_opens_a_room_with_a_code_and_a_link(lecturer: AppTest) -> None:
    code = room_of(lecturer).code
    assert lecturer.query_params["room"] == code
    assert [one.value for one in lecturer.code] == [f"/learn?room={code}"]
    assert f"Room <b>{rooms.spaced(code)}</b>" in words(lecturer)
    assert {"Show answers", "Close room"} <= set(buttons(lecturer))


@pytest.mark.slow
def test_a_reader_with_the_link_follows_story_scene_and_dials(lecturer: AppTest) -> None:
    page = reader(lecturer, story=OTHER_STORY)
    assert page.title[0].value == stories()[STORY].title
    moved(lecturer, "b")
    again(page)
    assert page.select_slider(key="turn").value == SECOND.place["turn"]
    assert page.segmented_control(key="scene").value == "b"
    lecturer.select_slider(key="turn").set_value("180").run()
    again(page)
    assert page.select_slider(key="turn").value == "180" and page.query_params["turn"] == "180"
    lecturer.segmented_control(key="story").set_value(OTHER_STORY).run()
    again(page)
    assert page.title[0].value == stories()[OTHER_STORY].title
    assert "Play" in buttons(page)


@pytest.mark.slow
def test_a_reader_who_has_turned_a_dial_goes_on_when_answers_are_shown_and_follows_the_next_move(
    lecturer: AppTest,
) -> None:
    page = reader(lecturer)
    page.select_slider(key="turn").set_value("180").run()
    assert page.button(key="play").label == "Pause"
    pressed(lecturer, "answers")
    again(page)
    assert page.button(key="play").label == "Pause" and page.select_slider(key="turn").value == "180"
    moved(lecturer, "b")
    again(page)
    assert page.select_slider(key="turn").value == SECOND.place["turn"]


@pytest.mark.slow
def test_a_reader_moves_nobody_else_stops_following_and_follows_again(lecturer: AppTest) -> None:
    page, other = reader(lecturer), reader(lecturer)
    moved(page, "b")
    assert again(other).segmented_control(key="scene").value == "a"
    assert room_of(again(lecturer)).room.version == 1
    pressed(page, "follow")
    assert page.segmented_control(key="scene").value == "a" and "following the lecturer" in words(page)
    pressed(page, "follow")
    moved(page, "b")
    moved(lecturer, "c")
    again(page)
    assert page.segmented_control(key="scene").value == "b" and "not following" in words(page)
    pressed(page, "follow")
    assert page.segmented_control(key="scene").value == "c" and "following the lecturer" in words(page)


@pytest.mark.parametrize("key", ["next", "story"])
def test_a_reader_who_moves_to_another_scene_or_story_no_longer_follows(lecturer: AppTest, key: str) -> None:
    page = reader(lecturer)
    assert "following the lecturer" in words(page)
    if key == "next":
        pressed(page, key)
    else:
        page.segmented_control(key=key).set_value(OTHER_STORY).run()
    assert "not following" in words(page) and "Follow again" in buttons(page)
    pressed(page, "follow")
    assert page.title[0].value == stories()[STORY].title and page.segmented_control(key="scene").value == "a"
    assert "following the lecturer" in words(again(page))


@pytest.mark.slow
def test_a_reader_leaves_and_joins_again_with_the_code(lecturer: AppTest) -> None:
    page = pressed(reader(lecturer), "leave_room")
    assert "room" not in page.query_params and "Teach a class" in buttons(page)
    assert counts(lecturer) == "0 of 0 answered"
    typed = rooms.spaced(room_of(lecturer).code).lower()
    page.text_input(key=classroom.INPUT).set_value(typed)
    pressed(page, "join_room")
    assert page.query_params["room"] == room_of(lecturer).code and "following the lecturer" in words(page)
    assert counts(lecturer) == "0 of 1 answered"


def test_a_wrong_code_is_an_error_that_says_what_a_code_is() -> None:
    page = open_page("learn", story=STORY)
    for typed in ("ABCDEFGH", "not a code", "<b>x</b>", "[a](http://elsewhere.test)", "a" * 40):
        page.text_input(key=classroom.INPUT).set_value(typed)
        pressed(page, "join_room")
        (error,) = page.error
        assert "code" in error.value and ("eight letters" in error.value or "Check the letters" in error.value), typed
        assert "room" not in page.query_params, typed
    assert not again(page).error
    for typed in ("", "  "):
        page.text_input(key=classroom.INPUT).set_value(typed)
        pressed(page, "join_room")
        assert [error.value for error in page.error] == ["Type the eight letters of the code."], typed


def test_the_error_of_a_wrong_code_is_below_its_field() -> None:
    page = open_page("learn", story=STORY)
    page.text_input(key=classroom.INPUT).set_value("ABCDEFGH")
    pressed(page, "join_room")
    (form,) = page.get("form")
    assert [type(one).__name__ for one in form.children.values()] == ["TextInput", "Error", "Button"]


def test_enter_in_the_field_of_the_code_joins() -> None:
    page = open_page("learn", story=STORY)
    form = page.text_input(key=classroom.INPUT).form_id
    assert form and page.button(key="join_room").form_id == form


def test_a_link_to_an_unknown_story_says_so_once() -> None:
    page = open_page("learn", story="nonsense")
    (info,) = page.info
    assert info.value.replace("\\", "") == "There is no story “nonsense”; choose one above."
    assert "story" not in page.query_params and not again(page).info


def test_a_link_to_an_unknown_room_opens_learn_with_an_error() -> None:
    page = open_page("learn", room="ABCDEFGH", story=STORY)
    assert page.title[0].value == stories()[STORY].title
    assert "no room with the code ABCD EFGH" in page.error[0].value.replace("\\", "")


@pytest.mark.slow
def test_a_closed_room_is_information_and_the_page_stays(lecturer: AppTest) -> None:
    page = reader(lecturer)
    moved(lecturer, "b")
    again(page)
    pressed(lecturer, "leave_room")
    assert "Teach a class" in buttons(lecturer) and not lecturer.error
    again(page)
    assert [info.value for info in page.info] == [classroom.CLOSED] and not page.error
    assert page.segmented_control(key="scene").value == "b" and "room" not in page.query_params
    assert not again(page).info


def test_the_lecturer_sees_that_the_room_was_closed_elsewhere(lecturer: AppTest, empty_store: Store) -> None:
    room = room_of(lecturer).room
    empty_store.rooms.close(room.code, room.key, room.owner)
    moved(lecturer, "b")
    assert [info.value for info in lecturer.info] == [classroom.EXPIRED]
    assert lecturer.segmented_control(key="scene").value == "b"


def test_the_browser_that_opened_the_room_leads_it_after_a_reload(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(lecturer, "b")
    with_cookie(monkeypatch, room_of(lecturer).secret)
    page = reader(lecturer)
    assert "Close room" in buttons(page) and page.segmented_control(key="scene").value == "b"
    assert room_of(page).room.version == 2
    moved(page, "c")
    assert room_of(page).room.version == 3
    with_cookie(monkeypatch, "x" * 43)
    assert "Close room" not in buttons(reader(lecturer))


def test_the_browser_that_opened_a_room_is_offered_to_return_to_it(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(lecturer, "b")
    offer = f"Return to room {rooms.spaced(room_of(lecturer).code)}"
    assert offer not in buttons(open_page("learn"))  # another browser
    with_cookie(monkeypatch, room_of(lecturer).secret)
    page = open_page("learn")
    assert offer in buttons(page)
    pressed(page, "return")
    assert "Close room" in buttons(page) and page.segmented_control(key="scene").value == "b"
    pressed(page, "leave_room")
    assert offer not in buttons(page) and offer not in buttons(open_page("learn"))


def test_a_visitor_who_led_a_room_sees_learn_also_while_the_database_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_cookie(monkeypatch, "x" * 43)
    monkeypatch.setenv("DATABASE_URL", "mysql://lab/fedscape")
    page = open_page("learn")
    assert page.title and not page.exception


@pytest.mark.parametrize("host", ["127.0.0.1:8501", "localhost", "lab.test"])
def test_a_link_that_works_on_this_computer_only_says_so(
    host: str, lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_bar.st.context.__class__, "url", f"http://{host}/learn")
    again(lecturer)
    assert (room_bar.LOCAL in [one.value for one in lecturer.caption]) == (host != "lab.test")


def with_cookie(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setattr(classroom.browsers, "secret_in", lambda cookies: secret)


@pytest.mark.slow
def test_a_second_tab_of_the_lecturer_at_another_question_does_not_show_the_answers(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_cookie(monkeypatch, room_of(lecturer).secret)
    tab = reader(lecturer)
    assert "Show answers" in buttons(tab)
    moved(lecturer, "b")
    again(tab)
    assert "Show answers" not in buttons(tab) and "The room is on another question" in words(tab)
    assert "Show answers" in buttons(lecturer)
    moved(tab, "c")
    assert "Show answers" in buttons(tab) and "Show answers" not in buttons(again(lecturer))


@pytest.mark.slow
def test_guesses_are_counted_and_shown_to_all_until_the_lecturer_moves_on(lecturer: AppTest) -> None:
    first, second = stories()[STORY].scenes[0].question.answers[:2]
    pages = [reader(lecturer) for _ in range(3)]
    guess = f"guess_{STORY}_0"
    for page, answer in zip(pages, (first, second, second), strict=True):
        page.pills(key=guess).set_value(answer).run()
    lecturer.pills(key=guess).set_value(first).run()  # which does not count
    assert counts(lecturer) == "3 of 3 answered"
    pages[0].pills(key=guess).set_value(second).run()
    assert not plots(lecturer) and not plots(again(pages[2]))
    pressed(lecturer, "answers")
    for page in (lecturer, *map(again, pages)):
        assert "3 answers. Most frequent: “Learning alone”, 3." in words(page)
    pressed(lecturer, "answers")
    assert not plots(again(pages[0]))
    pressed(lecturer, "answers")
    assert plots(again(pages[0]))
    moved(lecturer, "b")
    assert not plots(again(pages[0])) and not plots(lecturer)


@pytest.mark.slow
def test_a_guess_made_before_the_lecturer_comes_to_the_question_is_counted(lecturer: AppTest) -> None:
    page = reader(lecturer)
    moved(page, "b")
    page.pills(key=f"guess_{STORY}_1").set_value(SECOND.question.answers[1]).run()
    assert counts(lecturer) == "0 of 1 answered"
    moved(lecturer, "b")
    again(page)
    assert counts(lecturer) == "1 of 1 answered"


@pytest.mark.slow
def test_an_answer_that_came_after_the_lecturer_moved_on_is_counted_when_the_lecturer_returns(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reader(lecturer)
    with monkeypatch.context() as within_a_second:
        within_a_second.setattr(rooms, "tick", lambda: -1)
        again(page)
        moved(lecturer, "b")
        page.pills(key=f"guess_{STORY}_0").set_value("Learning alone").run()
    assert counts(again(page) and lecturer) == "0 of 1 answered"
    moved(lecturer, "a")
    again(page)
    assert counts(lecturer) == "1 of 1 answered"


@pytest.mark.slow
@pytest.mark.parametrize("slug", [STORY, "left-behind"])  # a choice and a number
def test_after_a_reload_a_reader_sees_the_stored_answers(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lecturer = pressed(open_page("learn", story=slug), "teach")
    page = reader(lecturer)
    place, question = page.session_state["learn"].desk.place, stories()[slug].scenes[0].question
    text = list(answers_of(question))[1]
    find = page.pills if isinstance(question, Choice) else page.select_slider
    find(key=f"guess_{slug}_0").set_value(text).run()
    moved(lecturer, "b")
    with_cookie(monkeypatch, room_of(page).secret)
    reloaded = reader(lecturer)
    moved(lecturer, "a")
    desk = again(reloaded).session_state["learn"].desk
    assert classroom.answer_text(desk.guess_at(place)) == text
    pressed(reloaded, "reveal")
    assert counts(lecturer) == "1 of 1 answered"


def test_a_reader_who_left_in_another_tab_joins_again_with_an_answer_that_reset_keeps(lecturer: AppTest) -> None:
    page = reader(lecturer)
    room = room_of(page)
    actions.leave(queries.store(), room.secret, room.code)
    assert counts(lecturer) == "0 of 0 answered"
    page.pills(key=f"guess_{STORY}_0").set_value("Learning alone").run()
    assert not page.error and counts(lecturer) == "1 of 1 answered"
    pressed(page, "reset")
    assert page.pills(key=f"guess_{STORY}_0").value == "Learning alone"
    assert counts(lecturer) == "1 of 1 answered"


@pytest.mark.slow
def test_an_answer_to_a_room_that_was_closed_meanwhile_says_so(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reader(lecturer)
    monkeypatch.setattr(rooms, "tick", lambda: -1)
    again(page)
    pressed(lecturer, "leave_room")
    page.pills(key=f"guess_{STORY}_0").set_value("Learning alone").run()
    assert [info.value for info in page.info] == [classroom.CLOSED]


@pytest.mark.slow
def test_an_estimate_is_counted_at_its_stop(empty_store: Store) -> None:
    slug, index, scene = next(
        (slug, index, scene)
        for slug, story in stories().items()
        for index, scene in enumerate(story.scenes)
        if isinstance(scene.question, Estimate)
    )
    lecturer = pressed(open_page("learn", story=slug, **scene.place), "teach")
    page = reader(lecturer)
    stop = f"{scene.question.stops[2]:g}"
    page.select_slider(key=f"guess_{slug}_{index}").set_value(stop).run()
    assert shown(lecturer) == {stop: 1}
    page.select_slider(key=f"guess_{slug}_{index}").set_value("").run()
    assert shown(lecturer) == {}


def shown(lecturer: AppTest) -> dict[str, int]:
    """The answers to the current question, after the lecturer has shown them."""
    store, room = queries.store(), room_of(lecturer)
    actions.show_answers(store, room.secret, room.code, True)
    return store.rooms.tally(room.code)


def counts(lecturer: AppTest) -> str:
    """What the lecturer's browser shows after its next poll."""
    return room_feed.counts(room_of(again(lecturer)).room)


def plots(page: AppTest) -> bool:
    return answers.TITLE in [heading.value for heading in page.header]


@pytest.mark.slow
def test_on_a_slide_the_lecturer_has_the_code_and_the_key_a(lecturer: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    with_cookie(monkeypatch, room_of(lecturer).secret)
    slide = reader(lecturer, presenting="true")
    slide.session_state["presenting"] = True
    again(slide)
    assert rooms.spaced(room_of(lecturer).code) in words(slide)
    assert slide.button(key="answers").proto.shortcut == "a"
    pressed(slide, "answers")
    assert "No answers yet." in words(slide)


@pytest.mark.slow
def test_on_a_slide_j_shows_the_code_until_the_lecturer_moves_on(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_cookie(monkeypatch, room_of(lecturer).secret)
    slide = reader(lecturer, presenting="true")
    slide.session_state["presenting"] = True
    heading = f"<h1>{rooms.spaced(room_of(lecturer).code)}</h1>"
    assert heading not in words(again(slide)) and slide.title
    assert slide.button(key="code").proto.shortcut == "j"
    pressed(slide, "code")
    assert heading in words(slide) and not slide.title
    pressed(slide, "next")
    assert heading not in words(slide) and slide.title
    for key in ("play", "answers", "code"):
        assert heading in words(pressed(slide, "code")), key
        assert heading not in words(pressed(slide, key)), key


@pytest.mark.slow
def test_on_a_slide_play_runs_and_hides_the_answers(lecturer: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    student = reader(lecturer)
    with_cookie(monkeypatch, room_of(lecturer).secret)
    slide = reader(lecturer)
    for page in (slide, student):
        page.session_state["presenting"] = True
    pressed(again(slide), "answers")
    assert "No answers yet." in words(slide) and "No answers yet." in words(again(student))
    pressed(student, "play")
    assert "This run, round " in words(student)
    assert room_of(again(slide)).room.shows_answers
    pressed(slide, "play")
    assert "This run, round " in words(slide) and "No answers yet." not in words(slide)
    assert not room_of(slide).room.shows_answers


@pytest.mark.slow
def test_a_slide_says_that_the_room_was_closed(lecturer: AppTest) -> None:
    slide = reader(lecturer, presenting="true")
    slide.session_state["presenting"] = True
    again(slide)
    pressed(lecturer, "leave_room")
    assert classroom.CLOSED in words(again(slide))
    assert classroom.CLOSED not in words(again(slide))


@pytest.mark.slow
def test_a_visitor_follows_without_being_counted(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people_sign_in(monkeypatch)
    lecturer = pressed(visit("learn", PEOPLE["member"].name, story=STORY), "teach")
    page = visit("learn", PEOPLE["visitor"].name, room=room_of(lecturer).code)
    moved(lecturer, "b")
    assert again(page).segmented_control(key="scene").value == "b"
    page.pills(key=f"guess_{STORY}_1").set_value(SECOND.question.answers[1]).run()
    assert not page.exception and not page.error
    assert counts(lecturer) == "0 of 0 answered"
    pressed(page, "leave_room")
    assert page.button(key="teach").disabled and "Only members and admins" in page.button(key="teach").help


def test_another_person_in_the_lecturers_browser_is_a_reader(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    lecturer = pressed(visit("learn", PEOPLE["member"].name, story=STORY), "teach")
    with_cookie(monkeypatch, room_of(lecturer).secret)
    again_there = visit("learn", PEOPLE["member"].name, room=room_of(lecturer).code)
    assert "Close room" in buttons(again_there)
    another = visit("learn", PEOPLE["admin"].name, room=room_of(lecturer).code)
    assert "Leave room" in buttons(another)


def test_a_read_only_demo_opens_no_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_READ_ONLY", "1")
    assert open_page("learn", story=STORY).button(key="teach").disabled


def test_a_locked_database_is_an_error_on_the_page_that_stays(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseLocked("locked for 10 s")

    page = reader(lecturer)
    attempts: dict[str, Callable[[], AppTest]] = {
        "answer": lambda: page.pills(key=f"guess_{STORY}_0").set_value("Learning alone").run(),
        "show_answers": lambda: pressed(lecturer, "answers"),
        "move": lambda: (moved(lecturer, "b"), lecturer)[1],
        "leave": lambda: pressed(page, "leave_room"),
        "join": lambda: reader(lecturer, story=STORY),
        "open": lambda: pressed(open_page("learn", story=STORY), "teach"),
        "close": lambda: pressed(lecturer, "leave_room"),
    }
    for write, attempt in attempts.items():
        with monkeypatch.context() as locked:
            locked.setattr(Rooms, write, fail)
            failed = attempt()
        assert not failed.exception and [error.value for error in failed.error] == ["locked for 10 s"], write
        assert failed.title[0].value == stories()[STORY].title, write


@pytest.mark.slow
def test_a_database_that_cannot_be_read_keeps_the_reader_in_the_room(
    lecturer: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reader(lecturer)
    with monkeypatch.context() as patch:
        patch.setattr(Rooms, "get", lambda *_: (_ for _ in ()).throw(DatabaseLocked("locked for 10 s")))
        assert [error.value for error in again(page).error] == ["locked for 10 s"]
    moved(lecturer, "b")
    assert again(page).segmented_control(key="scene").value == "b"


INVALID: list[dict[str, Any]] = [
    {},
    {"story": "unknown"},
    {"story": ["one-model"]},
    {"story": {"a": 1}, "scene": 0, "dials": {}},
]
PARTLY: list[dict[str, Any]] = [
    {"story": STORY, "scene": 99, "dials": {"turn": "17", "other": "1"}},
    {"story": STORY, "scene": -1, "dials": "turn"},
    {"story": STORY, "scene": "0", "dials": {"turn": ["0"]}},
    {"story": STORY, "scene": None, "dials": {"turn": {"a": 1}}},
    {"story": STORY, "dials": [["turn", "90"]]},
]


@pytest.mark.parametrize("position", INVALID, ids=str)
def test_an_invalid_position_moves_nothing(position: dict[str, Any]) -> None:
    page = Reader(OTHER_STORY)
    take_over(page, position)
    assert page.slug == OTHER_STORY and page.desk.place is None


@pytest.mark.parametrize("position", PARTLY, ids=str)
def test_invalid_parts_of_a_position_count_as_the_first_scene(position: dict[str, Any]) -> None:
    page = Reader(OTHER_STORY)
    take_over(page, position)
    assert page.slug == STORY and page.desk.scene == 0
    assert page.desk.place == dict(stories()[STORY].scenes[0].place)


def test_every_possible_answer_has_a_column_and_unknown_ones_have_none() -> None:
    df = answers.data(WHICH, {"Together": 2, "hostile": 5})
    assert list(df["answer"]) == list(WHICH.answers) and list(df["readers"]) == [0, 2, 0]
    assert list(answers.data(HOW_MUCH, {"0.25": 3})["answer"]) == ["0 %", "25 %", "50 %"]
    assert list(answers_of(HOW_MUCH)) == ["0", "0.25", "0.5"]


def test_each_reader_is_a_dot() -> None:
    dots = answers.figure(answers.data(WHICH, {"Alone": 1, "Neither": 3})).data[0]
    assert list(zip(dots.x, dots.y, strict=True)) == [(0, 1), (2, 1), (2, 2), (2, 3)]
    full, count = answers.figure(answers.data(WHICH, {"Alone": 200})).data
    assert list(count.text) == ["200"] and list(count.x) == list(full.x[:1])
    assert len(full.x) == 200 and 200 * full.marker.size <= answers.COLUMN


def test_the_finding_names_the_most_frequent_answers_or_the_median() -> None:
    def found(question: Any, tally: dict[str, int]) -> str:
        return answers.finding(question, answers.data(question, tally)).replace("\u00a0", " ")

    assert found(WHICH, {}) == found(HOW_MUCH, {}) == "No answers yet."
    assert found(WHICH, {"Alone": 1}) == "1 answer. Most frequent: “Alone”, 1."
    assert found(WHICH, {"Alone": 2, "Together": 2, "Neither": 1}) == (
        "5 answers. Most frequent: “Alone” and “Together”, 2."
    )
    assert found(HOW_MUCH, {"0": 1, "0.25": 3, "0.5": 1}) == "5 answers. Median: 25 %."
