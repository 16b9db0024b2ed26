"""Notes and tags in the Library: written on a selection, found again, shown in the table."""

from functools import partial
from typing import Any

from app.data import run_table
from app.library import notes
from app.library.finding import Filter
from storage import Store
from tests.app.pages import open_page, words

opened = partial(open_page, "library")


def found(store: Store, text: str) -> list[int]:
    return sorted(run.id for run in store.queue.runs() if Filter(text).passes(run))


def field(elements: Any, prefix: str) -> Any:
    return next(element for element in elements if element.key and element.key.startswith(prefix))


def test_runs_are_found_by_words_of_their_notes_and_by_tags(filled_store: Store) -> None:
    filled_store.annotations.write("As in Table 2", run_ids=[3])
    filled_store.annotations.write(add=["Baseline"], run_ids=[1, 2])
    assert found(filled_store, "table") == [3]
    assert found(filled_store, "baseline") == found(filled_store, "tag=baseline") == [1, 2]
    assert found(filled_store, "tag=base") == []


def test_runs_are_found_by_the_note_of_their_experiment(filled_store: Store) -> None:
    experiment = filled_store.queue.get(1).experiment_id
    filled_store.annotations.write(add=["lecture"], experiment_ids=[experiment])
    own = sorted(run.id for run in filled_store.queue.runs(experiment_ids=[experiment]))
    assert found(filled_store, "tag=lecture") == own
    assert run_table.data(filled_store.queue.runs(run_ids=[1]))["tags"].tolist() == ["lecture"]


def test_only_common_notes_and_tags_of_several_runs_are_shown(filled_store: Store) -> None:
    filled_store.annotations.write("one", run_ids=[1])
    filled_store.annotations.write(add=["a", "b"], run_ids=[1])
    filled_store.annotations.write(add=["b"], run_ids=[2])
    runs = filled_store.queue.runs(run_ids=[1, 2], newest_first=False)
    assert notes.common_note(runs) is None
    assert notes.common_tags(runs) == ("b",)


def test_a_note_and_tags_are_saved_from_the_selection(filled_store: Store) -> None:
    filled_store.annotations.write(add=["old", "kept"], run_ids=[1])
    filled_store.annotations.write(add=["kept", "own"], run_ids=[2])
    page = opened(runs="1,2")
    assert field(page.text_input, "tags_run").value == "kept"
    field(page.text_input, "tags_run").set_value("kept paper")
    field(page.text_area, "note_run").set_value("for the talk")
    field(page.button, "save_run").click()
    page.run()
    assert not page.exception
    assert [notice.value for notice in page.success] == ["Saved notes and tags of 2 runs."]
    one, two = filled_store.queue.runs(run_ids=[1, 2], newest_first=False)
    assert (one.note, two.note) == ("for the talk", "for the talk")
    assert (one.tags, two.tags) == (("old", "kept", "paper"), ("kept", "own", "paper"))


def test_a_mistake_is_reported_and_changes_nothing(filled_store: Store) -> None:
    page = opened(runs="1")
    field(page.text_input, "tags_run").set_value("x" * 50)
    field(page.button, "save_run").click()
    page.run()
    assert "one word of at most 40 characters" in words(page)
    assert filled_store.queue.get(1).tags == ()


def test_a_note_that_was_changed_meanwhile_is_replaced_only_on_request(filled_store: Store) -> None:
    page = opened(runs="1")
    filled_store.annotations.write("theirs", ["new"], run_ids=[1])
    field(page.text_area, "note_run").set_value("mine")
    field(page.button, "save_run").click()
    page.run()
    assert "It is now “theirs”" in page.error[0].value and filled_store.queue.get(1).note == "theirs"
    assert field(page.text_area, "note_run").value == "mine"
    page.button(key="library_offer_0").click().run()
    assert page.success[0].value == "Saved notes and tags of 1 run."
    run = filled_store.queue.get(1)
    assert (run.note, run.tags) == ("mine", ("new",))
    assert field(page.text_input, "tags_run").value == "new"


def test_a_form_shows_what_others_stored_unless_something_was_typed(filled_store: Store) -> None:
    page = opened(runs="1")
    filled_store.annotations.write("theirs", run_ids=[1])
    page.run()
    assert field(page.text_area, "note_run").value == "theirs"
    field(page.text_area, "note_run").set_value("mine")
    filled_store.annotations.write("newer", run_ids=[1])
    page.run()
    assert field(page.text_area, "note_run").value == "mine"


def test_the_note_of_an_experiment_is_saved_from_its_panel(filled_store: Store) -> None:
    page = opened(runs="1,2")
    field(page.text_area, "note_experiment").set_value("Lecture 3")
    field(page.button, "save_experiment").click()
    page.run()
    assert filled_store.queue.get(1).experiment_note == "Lecture 3"
