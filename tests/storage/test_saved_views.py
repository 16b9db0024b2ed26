"""Saved views."""

from storage import Store


def test_saving_a_view_again_replaces_it_and_views_are_listed_by_name(store: Store) -> None:
    store.saved_views.save("library", "done on digits", "status=done&dataset=digits")
    store.saved_views.save("library", "best first", "sort=mean")
    store.saved_views.save("compare", "best first", "sort=top")
    store.saved_views.save("library", "best first", "sort=lowest5")
    found = [(view.name, view.query) for view in store.saved_views.list("library")]
    assert found == [("best first", "sort=lowest5"), ("done on digits", "status=done&dataset=digits")]
    store.saved_views.delete("library", "best first")
    assert [view.name for view in store.saved_views.list("library")] == ["done on digits"]
    assert [view.query for view in store.saved_views.list("compare")] == ["sort=top"]
