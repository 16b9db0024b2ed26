"""The papers' figures in a browser: clicks on a figure's page stay on it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from app.data.preset_catalog import known, preset_runs
from storage import Store
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    """The app's database; unfinished runs are cancelled at the end."""
    store = Store(server.database_url)
    store.ensure_schema(wait_s=LOAD_MS / 1000)
    yield store
    store.queue.request(store.queue.ids(["queued", "running", "paused"]), "cancel")
    store.close()


def open_from_the_list(page: Page, server: Server, name: str) -> str:
    """Opens an entry of the list and returns its title."""
    title = known()[name].title
    page.goto(f"{server.url}/papers")
    page.get_by_role("link", name=title, exact=True).click(timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title, timeout=LOAD_MS)
    expect(page).to_have_url(re.compile(rf"/papers\?preset={name}$"), timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    expect(page).to_have_title(f"{title} · Papers · Fedscape")
    return title


@pytest.mark.slow
def test_the_runs_of_a_figure_are_queued_from_its_page(
    page: Page, server: Server, store: Store, page_problems: PageProblems
) -> None:
    title = open_from_the_list(page, server, "digits-first")
    page.get_by_role("button", name="Run the quick version").click()
    expect(page.get_by_role("link", name="Watch live")).to_be_visible(timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    digests = {run.digest for run in preset_runs(known()["digits-first"], "quick")}
    assert {run.digest for run in store.queue.find_by_digest(digests)} == digests
    assert page_problems == PageProblems()


@pytest.mark.slow
def test_the_time_of_a_figure_is_estimated_on_its_page(page: Page, server: Server, page_problems: PageProblems) -> None:
    title = open_from_the_list(page, server, "digits-first")
    page.get_by_role("button", name="Estimate the time here").click()
    expect(page.get_by_text(re.compile("^About .* on disk"))).to_be_visible(timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    assert page_problems == PageProblems()


@pytest.mark.slow
def test_a_figure_is_shown_at_paper_scale_and_back_opens_the_list(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    title = open_from_the_list(page, server, "cgpfl-fig3")
    page.get_by_role("radio", name="Full").click()
    page.wait_for_url("**/papers?preset=cgpfl-fig3&scale=paper", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    for address in ("**/papers?preset=cgpfl-fig3", "**/papers"):
        page.go_back()
        page.wait_for_url(address, timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).not_to_have_text(title)
    assert page_problems == PageProblems()


@pytest.mark.slow
def test_all_papers_opens_the_list_and_it_stays_open(page: Page, server: Server) -> None:
    title = open_from_the_list(page, server, "cgpfl-fig3")
    page.get_by_role("link", name="All papers").click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text(title, timeout=LOAD_MS)
    page.wait_for_url("**/papers", timeout=LOAD_MS)
    page.get_by_text("Presentation").click()
    page.wait_for_url("**/papers?presenting=true", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("link", name=title, exact=True).click()
    page.wait_for_url("**/papers?preset=cgpfl-fig3&presenting=true", timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title, timeout=LOAD_MS)


def test_a_handbook_link_is_in_the_address_and_the_next_click_stays(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.goto(f"{server.url}/handbook?method=ditto")
    page.get_by_role("link", name="All methods").click(timeout=LOAD_MS)
    page.wait_for_url("**/handbook", timeout=LOAD_MS)
    page.get_by_role("radio", name="Data sets").click(timeout=LOAD_MS)
    page.wait_for_url("**/handbook?show=datasets", timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text("Data sets", timeout=LOAD_MS)
    assert page_problems == PageProblems()
