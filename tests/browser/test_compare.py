"""Compare in Chromium: a click on a client opens its run, and a panel's switch does not affect others."""

import pytest
from playwright.sync_api import Page, expect

from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server

DRAWN = "document.querySelectorAll('.js-plotly-plot .main-svg').length > 4"


@pytest.fixture(scope="module")
def experiment(server: Server) -> int:
    """Four methods on digits, stored next to other experiments."""
    store = Store(server.database_url)
    try:
        store.ensure_schema(wait_s=LOAD_MS / 1000)
        return store_experiment(store, DIGITS | {"seeds": [0]}).id
    finally:
        store.close()


def opened(page: Page, server: Server, experiment: int, more: str = "") -> None:
    page.goto(f"{server.url}/compare?experiment={experiment}{more}")
    page.wait_for_function(DRAWN, timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def test_a_click_on_a_client_opens_its_run(
    page: Page, server: Server, page_problems: PageProblems, experiment: int
) -> None:
    opened(page, server, experiment)
    bar = page.locator(".st-key-figure_differences .bars .point path").first
    bar.scroll_into_view_if_needed(timeout=LOAD_MS)
    bar.click(force=True)
    link = page.get_by_role("link", name="Client").first
    expect(link).to_be_visible(timeout=LOAD_MS)
    assert "client=" in page.url
    link.click()
    expect(page.get_by_role("heading", name="Inside")).to_be_visible(timeout=LOAD_MS)
    assert "/run?" in page.url and "client=" in page.url
    assert page_problems == PageProblems()


def test_a_switch_of_one_panel_does_not_move_other_charts(
    page: Page, server: Server, page_problems: PageProblems, experiment: int
) -> None:
    opened(page, server, experiment)
    curves = page.locator(".st-key-figure_curves .main-svg").first
    curves.evaluate("node => node.dataset.seen = 'before'")
    page.get_by_role("radio", name="Histogram").or_(page.get_by_role("button", name="Histogram")).first.click()
    expect(page.get_by_text("Bins of 5 points")).to_be_visible(timeout=LOAD_MS)
    assert curves.evaluate("node => node.dataset.seen") == "before"
    assert "shape=histogram" in page.url
    assert page_problems == PageProblems()
