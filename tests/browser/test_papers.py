"""The papers' figures in a browser: clicks on a figure's page stay on it."""

import re

import pytest
from playwright.sync_api import Page, expect

from app.data.preset_catalog import known
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server


@pytest.mark.slow
def test_a_figure_is_shown_at_paper_scale_and_back_or_all_papers_opens_the_list(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    title = known()["cgpfl-fig3"].title
    page.goto(f"{server.url}/papers")
    page.get_by_role("link", name=title, exact=True).click(timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title, timeout=LOAD_MS)
    expect(page).to_have_url(re.compile(r"/papers\?preset=cgpfl-fig3$"), timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    expect(page).to_have_title(f"{title} · Papers · Fedscape")
    page.get_by_role("radio", name="Full").click()
    page.wait_for_url("**/papers?preset=cgpfl-fig3&scale=paper", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    for address in ("**/papers?preset=cgpfl-fig3", "**/papers"):
        page.go_back()
        page.wait_for_url(address, timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).not_to_have_text(title)
    page.get_by_text("Presentation").click()
    page.wait_for_url("**/papers?presenting=true", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("link", name=title, exact=True).click()
    page.wait_for_url("**/papers?preset=cgpfl-fig3&presenting=true", timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text(title, timeout=LOAD_MS)
    page.get_by_role("link", name="All papers").click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text(title, timeout=LOAD_MS)
    page.wait_for_url("**/papers?presenting=true", timeout=LOAD_MS)
    assert page_problems == PageProblems()


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
