"""Compare in Chromium: sections, clients chosen in charts, switches that redraw only their chart, lost connections."""

import pytest
from playwright.sync_api import Page, expect

from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server, goto_with

pytestmark = pytest.mark.slow

# Lets a test close the connections of a page, and then name a session that the server does not know.
CONNECTIONS = """
  window.connections = [];
  window.WebSocket = class extends WebSocket {
    constructor(address, [name, token, session]) {
      super(address, [name, token, session && (window.isForgotten ? "forgotten" : session)].filter(Boolean));
      connections.push(this);
    }
  };
"""


@pytest.fixture(scope="module")
def experiment(server: Server) -> int:
    """Two methods on digits, stored next to other experiments."""
    store = Store(server.database_url)
    try:
        store.ensure_schema(wait_s=LOAD_MS / 1000)
        return store_experiment(store, DIGITS | {"algorithms": ["fedavg", "ditto"], "seeds": [0]}).id
    finally:
        store.close()


def opened(page: Page, server: Server, experiment: int, section: str, figure: str) -> None:
    page.goto(f"{server.url}/compare?experiment={experiment}&section={section}")
    drawn(page, figure)


def drawn(page: Page, figure: str) -> None:
    page.wait_for_selector(f".st-key-figure_{figure} .main-svg", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def test_clients_chosen_in_a_chart_are_highlighted_in_every_section_and_open_their_run(
    page: Page, server: Server, page_problems: PageProblems, experiment: int
) -> None:
    opened(page, server, experiment, "clients", "differences")
    bar = page.locator(".st-key-figure_differences .bars .point path").first
    bar.scroll_into_view_if_needed(timeout=LOAD_MS)
    bar.click(force=True)
    expect(page.get_by_text("1 client chosen:")).to_be_visible(timeout=LOAD_MS)
    page.wait_for_url("**client=*", timeout=LOAD_MS)
    link = page.get_by_role("link", name="Client").first
    expect(link).to_be_visible(timeout=LOAD_MS)

    page.get_by_role("radio", name="Accuracy").click()
    expect(page.get_by_text("dots: the chosen clients")).to_be_visible(timeout=LOAD_MS)
    drawn(page, "ecdf")
    page.wait_for_url(lambda url: "section=" not in url, timeout=LOAD_MS)  # the first is the default
    assert page.locator(".st-key-compare_bar").bounding_box()["y"] >= 0
    across = page.locator(".st-key-figure_ecdf .nsewdrag").bounding_box()
    page.mouse.move(across["x"] + 2, across["y"] + 20)
    page.mouse.down()
    page.mouse.move(across["x"] + across["width"] - 2, across["y"] + 60, steps=5)
    page.mouse.up()
    expect(page.get_by_text("10 clients chosen:")).to_be_visible(timeout=LOAD_MS)
    page.wait_for_url("**client=0*", timeout=LOAD_MS)
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("chosen:")).to_be_hidden(timeout=LOAD_MS)
    page.wait_for_url(lambda url: "client=" not in url, timeout=LOAD_MS)

    for _ in range(3):
        page.go_back()
        page.wait_for_selector(READY, timeout=LOAD_MS)
    drawn(page, "differences")
    link.click()
    expect(page.get_by_role("heading", name="Inside")).to_be_visible(timeout=LOAD_MS)
    assert "/run?" in page.url and "client=" in page.url
    assert page_problems == PageProblems()


def test_a_switch_redraws_its_own_chart_and_another_section_opens_at_its_top(
    page: Page, server: Server, page_problems: PageProblems, experiment: int
) -> None:
    opened(page, server, experiment, "accuracy", "ecdf")
    other = page.locator(".st-key-figure_dumbbell .main-svg").first
    other.evaluate("node => node.dataset.seen = 'before'")
    page.get_by_role("radio", name="Histogram").click()
    expect(page.get_by_text("Bins of 5 points")).to_be_visible(timeout=LOAD_MS)
    assert other.evaluate("node => node.dataset.seen") == "before"
    assert "shape=histogram" in page.url

    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, main.scrollHeight)")
    bar = page.locator(".st-key-compare_bar")
    expect(bar).to_be_in_viewport()
    page.get_by_role("radio", name="Cost").click()
    drawn(page, "cost")
    expect(page.get_by_role("heading", level=2).first).to_be_in_viewport(timeout=LOAD_MS)
    assert "section=cost" in page.url
    assert page_problems == PageProblems()


def test_on_a_phone_the_buttons_of_a_chart_do_not_cover_it(
    page: Page, server: Server, page_problems: PageProblems, experiment: int
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, server, experiment, "accuracy", "dumbbell")
    expect(page.locator(".st-key-figure_dumbbell .modebar").first).to_be_hidden()
    assert page_problems == PageProblems()


def test_a_page_whose_session_is_lost_is_loaded_again_once_with_its_choices(
    page: Page, server: Server, page_problems: PageProblems, experiment: int
) -> None:
    goto_with(page, f"{server.url}/compare?experiment={experiment}&model=global", CONNECTIONS)
    drawn(page, "ecdf")
    loads: list[Page] = []
    page.on("load", lambda loaded: loads.append(loaded))

    page.evaluate("connections[0].close()")
    page.wait_for_function("connections[1]?.readyState === WebSocket.OPEN", timeout=LOAD_MS)
    page.get_by_role("radio", name="Cost").click()
    drawn(page, "cost")
    assert not loads

    with page.expect_event("load", timeout=LOAD_MS):
        page.evaluate("window.isForgotten = true; connections[1].close()")  # as by a web server that was started anew
    drawn(page, "cost")
    page.get_by_role("radio", name="Accuracy").click()
    drawn(page, "ecdf")
    assert "model=global" in page.url and len(loads) == 1
    assert page_problems == PageProblems()
