"""Notes and tags of experiments and runs."""

import pytest

from storage import Store
from storage.annotations import MAX_NOTE_LENGTH, MAX_TAGS, NoteChanged
from tests.storage.samples import new_run


@pytest.fixture
def ids(store: Store) -> list[int]:
    experiment = store.experiments.create("x", {}, [new_run(), new_run()])
    return [run.id for run in store.queue.runs(experiment_ids=[experiment.id], newest_first=False)]


def test_a_new_run_has_neither_note_nor_tags(store: Store, ids: list[int]) -> None:
    run = store.queue.get(ids[0])
    assert (run.note, run.tags, run.experiment_note, run.experiment_tags) == ("", (), "", ())


def test_a_note_is_replaced_and_removed(store: Store, ids: list[int]) -> None:
    store.annotations.write("  as in the lecture ", run_ids=ids[:1])
    assert [store.queue.get(i).note for i in ids] == ["as in the lecture", ""]
    store.annotations.write("", run_ids=ids)
    assert store.queue.get(ids[0]).note == ""


def test_tags_are_added_and_removed_and_others_stay(store: Store, ids: list[int]) -> None:
    store.annotations.write(add=["baseline", "old"], run_ids=ids[:1])
    store.annotations.write(add=["new", "baseline"], remove=["old"], run_ids=ids)
    assert [store.queue.get(i).tags for i in ids] == [("baseline", "new"), ("new", "baseline")]


def test_runs_have_the_note_and_tags_of_their_experiment(store: Store, ids: list[int]) -> None:
    experiment = store.queue.get(ids[0]).experiment_id
    store.annotations.write("for the paper", experiment_ids=[experiment])
    store.annotations.write(add=["paper"], experiment_ids=[experiment])
    found = store.experiments.get(experiment)
    assert (found.note, found.tags) == ("for the paper", ("paper",))
    run = store.queue.get(ids[1])
    assert (run.experiment_note, run.experiment_tags, run.tags) == ("for the paper", ("paper",), ())


@pytest.mark.parametrize("tag", ["", "two words", "x" * 41])
def test_a_tag_is_one_short_word(tag: str, store: Store, ids: list[int]) -> None:
    with pytest.raises(ValueError, match="one word of at most 40 characters"):
        store.annotations.write(add=[tag], run_ids=ids)


def test_too_many_tags_change_no_run(store: Store, ids: list[int]) -> None:
    store.annotations.write(add=[f"t{i}" for i in range(MAX_TAGS)], run_ids=ids[1:])
    with pytest.raises(ValueError, match="at most 20 tags"):
        store.annotations.write(add=["one-more"], run_ids=ids)
    assert store.queue.get(ids[0]).tags == ()


def test_a_note_that_its_writer_has_not_seen_is_not_replaced(store: Store, ids: list[int]) -> None:
    store.annotations.write("one", run_ids=ids[:1])
    with pytest.raises(NoteChanged) as refused:
        store.annotations.write("mine", ["tag"], run_ids=ids, replaces=[""])
    assert refused.value.notes == ("one",)
    assert [(run.note, run.tags) for run in map(store.queue.get, ids)] == [("one", ()), ("", ())]
    store.annotations.write("mine", run_ids=ids, replaces=["one"])
    assert {store.queue.get(i).note for i in ids} == {"mine"}


def test_a_note_has_a_limit(store: Store, ids: list[int]) -> None:
    with pytest.raises(ValueError, match="at most 2,000 characters"):
        store.annotations.write("x" * (MAX_NOTE_LENGTH + 1), run_ids=ids)


def test_notes_survive_a_claim_and_are_not_copied_to_a_rerun(store: Store, ids: list[int]) -> None:
    store.annotations.write(add=["mine"], run_ids=ids[:1])
    claimed = store.queue.claim()
    assert claimed is not None and claimed.tags == ("mine",)
    (again,) = store.queue.rerun(ids[:1])
    assert again.tags == ()
