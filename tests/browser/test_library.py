"""The Library in a browser: deleted runs can be restored, and a saved view is a link."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from storage import RunRecord, Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server, turn_to

pytestmark = pytest.mark.slow


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    store = Store(server.database_url)
    store.ensure_schema(wait_s=LOAD_MS / 1000)
    yield store
    store.close()


@pytest.fixture
def runs(store: Store) -> Iterator[list[RunRecord]]:
    """A finished experiment with three runs, two of which will be deleted."""
    raw = DIGITS | {"name": "to be deleted", "algorithms": [{"name": "fedavg"}], "seeds": [0, 1, 2]}
    experiment = store_experiment(store, raw)
    yield store.queue.runs(experiment_ids=[experiment.id], newest_first=False)
    store.experiments.delete([experiment.id])


def opened(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("h1", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def delete(page: Page) -> None:
    page.get_by_role("button", name="Delete", exact=True).click(timeout=LOAD_MS)
    expect(page.get_by_text("Deleted 2 runs.")).to_be_visible(timeout=LOAD_MS)


def test_deleted_runs_are_restored_by_undo_or_from_the_trash(
    page: Page, server: Server, store: Store, runs: list[RunRecord], page_problems: PageProblems
) -> None:
    ids = [run.id for run in runs[:2]]
    opened(page, f"{server.url}/library?runs={ids[0]},{ids[1]}")
    for name, after in (("Archive", "Unarchive"), ("Unarchive", "Archive")):  # the pressed button goes, the focus stays
        page.get_by_role("button", name=name, exact=True).press("Enter", timeout=LOAD_MS)
        expect(page.get_by_role("button", name=after, exact=True)).to_be_focused(timeout=LOAD_MS)
    page.get_by_role("button", name="Delete", exact=True).press("Enter")
    undo = page.get_by_role("button", name="Undo")
    expect(undo).to_be_focused(timeout=LOAD_MS)
    assert store.queue.runs(run_ids=ids) == []
    undo.press("Enter")
    expect(page.get_by_text("Restored 2 runs.")).to_be_visible(timeout=LOAD_MS)
    assert len(store.queue.runs(run_ids=ids)) == 2
    delete(page)
    turn_to(page, f"{server.url}/library")
    page.get_by_text("Trash: 2 deleted runs").click(timeout=LOAD_MS)
    page.get_by_role("button", name="Restore 2 runs").click(timeout=LOAD_MS)
    expect(page.get_by_text("Restored 2 runs.")).to_be_visible(timeout=LOAD_MS)
    page.wait_for_url(f"**runs={ids[0]}%2C{ids[1]}", timeout=LOAD_MS)
    assert len(store.queue.runs(run_ids=ids)) == 2
    assert page_problems == PageProblems()


def test_a_saved_view_is_a_link(page: Page, server: Server, store: Store, runs: list[RunRecord]) -> None:
    opened(page, f"{server.url}/library?q=to+be+deleted&sort=mean")
    page.get_by_role("button", name="Save view").click(timeout=LOAD_MS)
    page.get_by_role("textbox", name="View name").fill("mine, best first")
    page.get_by_role("button", name="Save", exact=True).click(timeout=LOAD_MS)
    expect(page.get_by_text("Saved the view “mine, best first”.")).to_be_visible(timeout=LOAD_MS)
    try:
        turn_to(page, f"{server.url}/library")
        expect(page.get_by_role("searchbox", name="Find")).to_have_value("", timeout=LOAD_MS)
        view = page.get_by_role("navigation", name="Views").get_by_role("link", name="mine, best first")
        view.click()
        expect(page.get_by_role("searchbox", name="Find")).to_have_value("to be deleted", timeout=LOAD_MS)
        expect(view).to_have_attribute("aria-current", "page")
    finally:
        store.saved_views.delete("library", "mine, best first")
