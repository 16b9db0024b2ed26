"""The whole workflow in a browser: set up, queue, watch, compare, return by a link. Nothing leaves this machine."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import LOAD_MS, PageProblems, Server

TRAINED_MS = 100_000


def turn_to(page: Page, name: str, question: str) -> None:
    """Opens a page through the navigation."""
    page.get_by_test_id("stTopNav").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(question, timeout=LOAD_MS)


def set_up_three_methods(page: Page) -> None:
    """The page opens with three methods on digits; changes the name and the number of rounds."""
    turn_to(page, "Set up", "New experiment")
    methods = ("FedAvg · Baselines", "LocalTrain · Baselines", "Ditto · Regularized toward a shared model")
    for number, method in enumerate(methods, start=1):
        expect(page.get_by_role("combobox", name=f"Method {number}")).to_have_value(method, timeout=LOAD_MS)
    name = page.get_by_role("textbox", name="Name")
    name.fill("A first look")
    name.press("Enter")
    rounds = page.get_by_label("Rounds (T)", exact=True)
    rounds.fill("5")
    rounds.press("Enter")
    expect(page.get_by_role("definition").filter(has_text=re.compile("^30$"))).to_be_visible(timeout=LOAD_MS)


def watch_until_done(page: Page) -> None:
    """Waits for six runs, whose curves appear without a reload."""
    expect(page.locator(".live-run")).to_have_count(6, timeout=LOAD_MS)
    page.wait_for_function(
        "document.querySelector('[data-figure=accuracy]')?.data?.filter(t => t.x.length > 5).length == 12",
        timeout=TRAINED_MS,
    )
    expect(page.locator(".live-run[data-status=done]")).to_have_count(6, timeout=TRAINED_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text("How did it go?", timeout=LOAD_MS)


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_set_up_queue_watch_compare_and_come_back_by_the_link(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.goto(server.url)
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=LOAD_MS)
    set_up_three_methods(page)
    page.get_by_role("button", name="Queue 6 runs").click()

    expect(page).to_have_url(re.compile(r"/live\?experiment=\d+"), timeout=LOAD_MS)
    watch_until_done(page)

    page.get_by_role("link", name="Compare these runs").click()
    expect(page).to_have_url(re.compile(r"/compare\?runs="), timeout=LOAD_MS)
    expect(page.get_by_role("heading", level=1)).to_contain_text("over two seeds", timeout=LOAD_MS)
    page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=LOAD_MS)
    expect(page.get_by_role("radio", name="Personalized")).to_be_checked(timeout=LOAD_MS)
    finding, link = page.locator(".lead").inner_text(), page.url

    turn_to(page, "Library", "Runs")
    page.goto(link)
    expect(page.locator(".lead")).to_have_text(finding, use_inner_text=True, timeout=LOAD_MS)
    page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=LOAD_MS)
    assert page_problems == PageProblems()
