"""Delays between browser and server: clicks before a slow response, Back, and popovers that were closed meanwhile."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from app.state.links import pack_config
from app.stories import stories
from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.conftest import (
    CONNECTIONS,
    LOAD_MS,
    READY,
    TRAINED,
    PageProblems,
    Server,
    Trained,
    ends_a_page,
    goto_with,
    noting,
)

pytestmark = pytest.mark.slow

LAG_MS = 600
SETTLED_MS = 4 * LAG_MS
LAGGING = """(() => {
  const Socket = window.WebSocket
  window.sent = 0
  window.WebSocket = class extends Socket {
    addEventListener(kind, listen, options) {
      const deliver = (event) => listen.call(this, event)
      const late = (event) => {
        if (window.inbox) window.inbox.push(() => deliver(event))
        else if (window.lag) setTimeout(deliver, window.lag, event)
        else deliver(event)
      }
      super.addEventListener(kind, kind === 'message' ? late : listen, options)
    }
    send(message) {
      if (window.held) window.held.push(() => super.send(message))
      else { super.send(message); window.sent += 1 }
    }
  }
})()"""
DELIVER = """async () => {
  while (window.inbox.length) {
    window.inbox.shift()()
    await new Promise((done) => setTimeout(done, 5))  // until the page has handled it
  }
  window.inbox = null
}"""

ALL_THREE = "['model=global', 'tail=10', 'when=best'].every((part) => location.search.includes(part))"
NONE = "['model=', 'tail=', 'when='].every((part) => !location.search.includes(part))"
DUMBBELL = ".st-key-figure_dumbbell .main-svg"


@pytest.fixture(scope="module")
def experiment(server: Server) -> Iterator[int]:
    """Two methods, since Compare is drawn many times."""
    store = Store(server.database_url)
    store.ensure_schema(wait_s=LOAD_MS / 1000)
    two = [{"name": "fedavg"}, {"name": "cgpfl", "K": 2, "label": "CGPFL K=2"}]
    yield store_experiment(store, DIGITS | {"algorithms": two, "seeds": [0]}).id
    store.close()


def opened(page: Page, url: str, then: str, script: str = "") -> None:
    goto_with(page, url, script) if script else page.goto(url)
    page.wait_for_selector(then, timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def opened_far_away(page: Page, url: str, then: str) -> None:
    """Opens the page, then delays each message from the server by ``LAG_MS``."""
    opened(page, url, then, LAGGING)
    page.evaluate(f"window.lag = {LAG_MS}")


def radio(page: Page, name: str) -> Locator:
    return page.get_by_role("radio", name=name, exact=True)


def test_clicks_before_the_response_to_the_previous_one_all_count(
    page: Page, server: Server, experiment: int, page_problems: PageProblems
) -> None:
    compare = f"experiment={experiment}"
    opened_far_away(page, f"{server.url}/compare?{compare}", DUMBBELL)
    for pause_ms, choices, done, address in (
        (100, ("Global", "10 %", "Best round"), ALL_THREE, f"{compare}&model=global&tail=10&when=best"),
        (400, ("Personalized", "5 %", "Last round"), NONE, compare),
    ):
        with noting(f"{pause_ms} ms"):
            for choice in choices:
                radio(page, choice).click()
                page.wait_for_timeout(pause_ms)
            page.wait_for_function(done, timeout=LOAD_MS)
            page.wait_for_timeout(SETTLED_MS)
            assert page.url.endswith(address)  # and nothing else
            for choice in choices:
                expect(radio(page, choice)).to_be_checked()

    sent = page.evaluate("window.sent")
    radio(page, "Global").click()
    page.wait_for_function("before => window.sent > before", arg=sent, timeout=LOAD_MS)
    page.evaluate("window.held = []")  # the server is too busy to receive what follows
    radio(page, "10 %").click()
    page.wait_for_function("window.held.length > 0", timeout=LOAD_MS)
    page.wait_for_function("location.search.includes('model=global')", timeout=LOAD_MS)
    page.wait_for_timeout(SETTLED_MS)
    radio(page, "Best round").click()
    expect(radio(page, "10 %")).to_be_checked()
    page.evaluate("(held => { window.held = null; held.forEach(send => send()) })(window.held)")
    page.wait_for_function(ALL_THREE, timeout=LOAD_MS)
    page.wait_for_timeout(SETTLED_MS)
    assert page.url.endswith(f"{compare}&model=global&tail=10&when=best")
    for choice in ("Global", "10 %", "Best round"):
        expect(radio(page, choice)).to_be_checked()
    assert page_problems == PageProblems()


def test_cached_figures_survive_several_late_responses(
    page: Page, server: Server, trained: Trained, page_problems: PageProblems
) -> None:
    opened(page, f"{server.url}/compare?experiment={trained.experiment}", DUMBBELL, LAGGING)
    page.evaluate("window.inbox = []")  # hold all responses until the last click
    for choice in ("Global", "10 %", "5 %", "Personalized"):
        with CONNECTIONS[page].expect_event("framereceived", ends_a_page, timeout=LOAD_MS):
            radio(page, choice).click()
    assert page.evaluate("window.inbox.length") >= 4
    page.evaluate(DELIVER)
    radio(page, "Best round").click()
    page.wait_for_function("location.search.includes('when=best')", timeout=LOAD_MS)
    expect(radio(page, "Personalized")).to_be_checked()
    expect(page.locator(DUMBBELL).first).to_be_visible()
    assert page_problems == PageProblems()


def test_text_typed_into_set_up_stays(page: Page, server: Server, page_problems: PageProblems) -> None:
    opened_far_away(page, f"{server.url}/setup", "text=Queue")
    written = {"Rounds (T)": "61", "Clients (N)": "31", "Seeds": "7"}
    for label, number in written.items():
        field = page.get_by_label(label, exact=True)
        field.fill(number)
        field.press("Enter")
        page.wait_for_timeout(LAG_MS)
    page.wait_for_timeout(SETTLED_MS)
    assert {label: page.get_by_label(label, exact=True).input_value() for label in written} == written
    assert page_problems == PageProblems()


def test_a_popover_opened_after_a_click_matches_the_page_and_back_reverts_the_click(
    page: Page, server: Server, experiment: int
) -> None:
    opened(page, f"{server.url}/compare?experiment={experiment}", DUMBBELL)
    radio(page, "Global").click()
    page.wait_for_url("**model=global*", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("button", name="Choose runs").click()
    expect(page.get_by_test_id("stMultiSelect")).to_contain_text("CGPFL K=2", timeout=LOAD_MS)
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("stMultiSelect")).to_be_hidden(timeout=LOAD_MS)
    page.go_back()
    model = page.get_by_role("radiogroup", name="Model")
    expect(model.get_by_role("radio", name="Personalized")).to_be_checked(timeout=LOAD_MS)
    radio(page, "10 %").click()
    page.wait_for_url("**tail=10*", timeout=LOAD_MS)
    assert "model" not in page.url


def test_settings_of_a_method_are_shown_after_another_entry_and_back_reverts_an_entry(
    page: Page, server: Server
) -> None:
    method = {"name": "cgpfl", "K": 2, "label": "two contexts", "training": {"lr": 0.3}}
    link = pack_config({**TRAINED, "algorithms": [method]})
    opened(page, f"{server.url}/setup?config={link}", "text=Queue")
    rounds = page.get_by_label("Rounds (T)", exact=True)
    entered(page, rounds, "61")
    page.locator("summary").filter(has_text="label “two contexts” and learning rate 0.3").click()
    expect(page.get_by_label("Label", exact=True)).to_have_value("two contexts", timeout=LOAD_MS)
    expect(page.get_by_label("Learning rate (η)", exact=True)).to_have_value("0.3", timeout=LOAD_MS)
    entered(page, rounds, "62")
    page.go_back()
    expect(rounds).to_have_value("61", timeout=LOAD_MS)


def entered(page: Page, field: Locator, number: str) -> None:
    """Waits until the entry is in the address."""
    before = page.url
    field.fill(number)
    field.press("Enter")
    page.wait_for_function("(before) => location.href !== before", arg=before, timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def test_the_row_of_stories_has_links_in_order_and_back_opens_the_previous_story_and_then_leaves(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    slugs, titles = list(stories()), [story.title for story in stories().values()]
    heading = page.get_by_role("heading", level=1)
    page.goto(server.url)
    expect(heading).to_have_text(titles[0], timeout=LOAD_MS)
    for number in (2, 3):
        page.get_by_role("radio", name=re.compile(f"^{number} · ")).click()
        expect(heading).to_have_text(titles[number - 1], timeout=LOAD_MS)
        page.wait_for_url(f"**story={slugs[number - 1]}*", timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
    for title in (titles[1], titles[0]):
        page.go_back()
        expect(heading).to_have_text(title, timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
    page.go_back()
    page.wait_for_url("about:blank", timeout=LOAD_MS)
    assert page_problems == PageProblems()


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
