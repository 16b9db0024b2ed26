"""The Library's trash, saved views and disk use."""

from functools import partial

import pytest

from app.library import saved, trash
from storage import DiskUse, Store
from tests.app.pages import open_page, words

opened = partial(open_page, "library")


def test_the_trash_restores_some_or_all(filled_store: Store) -> None:
    filled_store.trash.put([1, 2, 3])
    page = opened()
    assert "after 7 days" in words(page)
    page.multiselect(key="library_trash").set_value([2]).run()
    page.button(key="restore").click().run()
    assert [run.id for run in filled_store.trash.list()] == [3, 1]
    page.button(key="restore").click().run()
    assert page.success[0].value == "Restored 2 runs." and filled_store.trash.list() == []


def test_permanent_deletion_needs_confirmation(filled_store: Store) -> None:
    filled_store.trash.put([1, 2])
    page = opened()
    assert "This can't be undone" in words(page)
    page.button(key="purge_now").click().run()
    assert page.success[0].value == "Permanently deleted 2 runs."
    assert filled_store.trash.list() == [] and trash.restore([1]).kind == "error"


def test_the_trash_of_an_empty_library_is_open(filled_store: Store) -> None:
    filled_store.trash.put(range(1, 9))
    page = opened()
    assert "NO RUNS YET" in words(page)
    assert page.button(key="restore").label == "Restore 8 runs"


def test_a_view_is_saved_replaced_deleted_and_restored(filled_store: Store) -> None:
    assert saved.save("  ", "q=1").kind == saved.save("Unfinished", "q=1").kind == "error"
    assert saved.save("best first", "sort=mean").text == "Saved the view “best first”."
    replaced = saved.save("best first", "q=ditto&sort=mean")
    assert replaced.offers[0].arguments == ("best first", "sort=mean")
    deleted = saved.delete("best first")
    assert filled_store.saved_views.list("library") == []
    deleted.offers[0].do(*deleted.offers[0].arguments)
    assert [view.query for view in filled_store.saved_views.list("library")] == ["q=ditto&sort=mean"]


def test_views_are_links_and_the_current_one_is_marked(filled_store: Store) -> None:
    filled_store.saved_views.save("library", "<b>Ditto</b>", "method=ditto&sort=mean")
    page = opened(sort="mean", method="ditto", runs="1")
    (links,) = [element.value for element in page.get("html") if "<nav" in element.value]
    assert 'href="/library?method=ditto&amp;sort=mean" target="_self" aria-current="page">&lt;b&gt;Ditto' in links
    assert links.count("aria-current") == 1 and "Failed or diverged" in links


def test_a_view_may_have_any_choice_in_its_address(filled_store: Store) -> None:
    filled_store.saved_views.save("library", "odd", "page=1&self=2")
    assert '<a href="/library?page=1&amp;self=2"' in words(opened())


def test_a_view_without_matches_offers_all_runs(filled_store: Store) -> None:
    page = opened(status="failed,diverged", method="scaffold", q="nothing")
    assert "8 without them" in words(page) and not page.dataframe
    page.button(key="clear").click().run()
    assert len(page.dataframe[0].value) == 8 and page.text_input(key="address_q").value == ""


def test_disk_use_is_shown_by_kind_and_a_full_disk_with_advice(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = DiskUse(4_000_000, 3_000, 2_000_000, 1_000, 500, 700_000_000)
    monkeypatch.setattr(Store, "disk_use", lambda self: full)
    page = opened()
    assert "Disk: 6 MB in use, 700 MB free, nearly full" in [expander.label for expander in page.expander]
    assert "empty the trash" in page.warning[0].value
    assert "<dt>Checkpoints</dt><dd>3 kB</dd>" in words(page) and "python -m engine backup" in words(page)


def test_a_long_list_has_pages(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.library.listing.ROWS", 3)
    page = opened(page="2")
    assert page.dataframe[0].value["run"].tolist() == [5, 4, 3]
    assert "Rows 4 to 6, 2 more" in words(page)
