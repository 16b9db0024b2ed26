"""Delays between browser and server: clicks before a slow response, Back, and popovers that were closed meanwhile."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from app.state.links import pack_config
from app.stories import stories
from tests.browser.conftest import (
    LOAD_MS,
    READY,
    TRAINED,
    VIEWPORT,
    PageProblems,
    Server,
    Trained,
    forget,
    waiting_for_content,
)

LAG_MS = 600
SETTLED_MS = 4 * LAG_MS
LAGGING = """(() => {
  const Socket = window.WebSocket
  window.WebSocket = class extends Socket {
    addEventListener(kind, listen, options) {
      const deliver = (event) => listen.call(this, event)
      const late = (event) => window.lag ? setTimeout(deliver, window.lag, event) : deliver(event)
      super.addEventListener(kind, kind === 'message' ? late : listen, options)
    }
    send(message) {
      if (window.held) window.held.push(() => super.send(message))
      else super.send(message)
    }
  }
})()"""

ALL_THREE = "['model=global', 'tail=10', 'when=best'].every((part) => location.search.includes(part))"


@pytest.fixture(scope="module")
def lagging_page(browser: Browser) -> Iterator[Page]:
    """A page of its own for all tests of this file that lag: an init script cannot be removed."""
    with browser.new_context(viewport=VIEWPORT, reduced_motion="reduce") as context:
        page = waiting_for_content(context.new_page())
        page.add_init_script(LAGGING)
        yield page


@pytest.fixture
def lagging(lagging_page: Page, page_problems: PageProblems) -> Iterator[Page]:
    page_problems.watch(lagging_page.context)
    yield lagging_page
    page_problems.unwatch(lagging_page.context)
    forget(lagging_page)


def opened(page: Page, url: str, then: str) -> None:
    page.goto(url)
    page.wait_for_selector(then, timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def radio(page: Page, name: str) -> Locator:
    return page.get_by_role("radio", name=name, exact=True)


@pytest.mark.parametrize("pause_ms", [100, 400])
def test_consecutive_clicks_all_count(
    pause_ms: int, lagging: Page, server: Server, trained: Trained, page_problems: PageProblems
) -> None:
    opened(lagging, f"{server.url}/compare?experiment={trained.experiment}", ".st-key-figure_dumbbell .main-svg")
    lagging.evaluate(f"window.lag = {LAG_MS}")
    for choice in ("Global", "10 %", "Best round"):
        radio(lagging, choice).click()
        lagging.wait_for_timeout(pause_ms)
    lagging.wait_for_function(ALL_THREE, timeout=LOAD_MS)
    lagging.wait_for_timeout(SETTLED_MS)
    assert lagging.url.endswith(f"experiment={trained.experiment}&model=global&tail=10&when=best")  # and nothing else
    for choice in ("Global", "10 %", "Best round"):
        expect(radio(lagging, choice)).to_be_checked()
    assert page_problems == PageProblems()


def test_a_click_before_the_previous_response_counts(
    lagging: Page, server: Server, trained: Trained, page_problems: PageProblems
) -> None:
    opened(lagging, f"{server.url}/compare?experiment={trained.experiment}", ".st-key-figure_dumbbell .main-svg")
    lagging.evaluate(f"window.lag = {LAG_MS}")
    radio(lagging, "Global").click()
    lagging.evaluate("window.held = []")  # the server is too busy to receive what follows
    radio(lagging, "10 %").click()
    lagging.wait_for_function("location.search.includes('model=global')", timeout=LOAD_MS)
    lagging.wait_for_timeout(SETTLED_MS)
    radio(lagging, "Best round").click()
    expect(radio(lagging, "10 %")).to_be_checked()
    lagging.evaluate("(held => { window.held = null; held.forEach(send => send()) })(window.held)")
    lagging.wait_for_function(ALL_THREE, timeout=LOAD_MS)
    lagging.wait_for_timeout(SETTLED_MS)
    assert lagging.url.endswith(f"experiment={trained.experiment}&model=global&tail=10&when=best")
    for choice in ("Global", "10 %", "Best round"):
        expect(radio(lagging, choice)).to_be_checked()
    assert page_problems == PageProblems()


def test_text_typed_into_set_up_stays(lagging: Page, server: Server, page_problems: PageProblems) -> None:
    opened(lagging, f"{server.url}/setup", "text=Queue")
    lagging.evaluate(f"window.lag = {LAG_MS}")
    written = {"Rounds (T)": "61", "Clients (N)": "31", "Seeds": "7"}
    for label, number in written.items():
        field = lagging.get_by_label(label, exact=True)
        field.fill(number)
        field.press("Enter")
        lagging.wait_for_timeout(LAG_MS)
    lagging.wait_for_timeout(SETTLED_MS)
    assert {label: lagging.get_by_label(label, exact=True).input_value() for label in written} == written
    assert page_problems == PageProblems()


def test_back_reverts_a_choice_in_the_browser(page: Page, server: Server, trained: Trained) -> None:
    opened(page, f"{server.url}/compare?experiment={trained.experiment}", ".st-key-figure_dumbbell .main-svg")
    radio(page, "Global").click()
    page.wait_for_url("**model=global*", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.go_back()
    model = page.get_by_role("radiogroup", name="Model")
    expect(model.get_by_role("radio", name="Personalized")).to_be_checked(timeout=LOAD_MS)
    radio(page, "10 %").click()
    page.wait_for_url("**tail=10*", timeout=LOAD_MS)
    assert "model" not in page.url


def test_back_in_set_up_reverts_an_entry(page: Page, server: Server) -> None:
    opened(page, f"{server.url}/setup", "text=Queue")
    rounds = page.get_by_label("Rounds (T)", exact=True)
    for number in ("61", "62"):
        before = page.url
        rounds.fill(number)
        rounds.press("Enter")
        page.wait_for_function("(before) => location.href !== before", arg=before, timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
    page.go_back()
    expect(rounds).to_have_value("61", timeout=LOAD_MS)


def test_back_opens_the_previous_story_and_then_leaves(page: Page, server: Server, page_problems: PageProblems) -> None:
    titles = [story.title for story in stories().values()]
    heading = page.get_by_role("heading", level=1)
    page.goto(f"{server.url}/handbook")
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.goto(server.url)
    expect(heading).to_have_text(titles[0], timeout=LOAD_MS)
    for number in (2, 3):
        page.get_by_role("radio", name=re.compile(f"^{number} · ")).click()
        expect(heading).to_have_text(titles[number - 1], timeout=LOAD_MS)
        page.wait_for_url("**story=*", timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
    for title in (titles[1], titles[0]):
        page.go_back()
        expect(heading).to_have_text(title, timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
    page.go_back()
    page.wait_for_url("**/handbook", timeout=LOAD_MS)
    assert page_problems == PageProblems()


def test_a_popover_opened_after_a_click_matches_the_page(page: Page, server: Server, trained: Trained) -> None:
    opened(page, f"{server.url}/compare?experiment={trained.experiment}", ".st-key-figure_dumbbell .main-svg")
    radio(page, "Global").click()
    page.wait_for_url("**model=global*", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("button", name="Choose runs").click()
    expect(page.get_by_test_id("stMultiSelect")).to_contain_text("CGPFL K=2", timeout=LOAD_MS)


def test_a_closed_popover_reverts_nothing(page: Page, server: Server, trained: Trained) -> None:
    first, second = (trained.runs["cgpfl", seed] for seed in (0, 1))
    opened(page, f"{server.url}/run?id={second}", ".main-svg")
    page.get_by_role("button", name="Choose a run").click()
    expect(page.get_by_test_id("stSelectbox").filter(has_text="Seed")).to_be_visible(timeout=LOAD_MS)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Previous seed").click()
    page.wait_for_url(f"**id={first}*", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    radio(page, "Global").first.click()
    page.wait_for_url("**model=global*", timeout=LOAD_MS)
    page.wait_for_timeout(SETTLED_MS)
    assert page.url.endswith(f"id={first}&model=global")


def test_settings_of_a_method_are_shown_after_another_entry(page: Page, server: Server) -> None:
    method = {"name": "cgpfl", "K": 2, "label": "two contexts", "training": {"lr": 0.3}}
    link = pack_config({**TRAINED, "algorithms": [method]})
    opened(page, f"{server.url}/setup?config={link}", "text=Queue")
    before, rounds = page.url, page.get_by_label("Rounds (T)", exact=True)
    rounds.fill("61")
    rounds.press("Enter")
    page.wait_for_function("(before) => location.href !== before", arg=before, timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.locator("summary").filter(has_text="label “two contexts” and learning rate 0.3").click()
    expect(page.get_by_label("Label", exact=True)).to_have_value("two contexts", timeout=LOAD_MS)
    expect(page.get_by_label("Learning rate (η)", exact=True)).to_have_value("0.3", timeout=LOAD_MS)
