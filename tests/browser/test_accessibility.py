"""The keyboard, reduced motion, and large text. What axe finds is in test_walk, which opens every page."""

import pytest
from playwright.sync_api import Page, expect

from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.accessible import FOCUS, PHONE
from tests.browser.conftest import LOAD_MS, READY, Server, turn_to

pytestmark = pytest.mark.slow

OPENING = """async expander => {
  expander.querySelector('summary').click();
  await new Promise(requestAnimationFrame);
  return expander.getAnimations().filter(animation => animation.effect.getTiming().duration > 0).length;
}"""

GROUNDS = "radios => radios.map(radio => [radio.ariaChecked, getComputedStyle(radio).backgroundColor])"
IN_POPOVER = "document.activeElement.closest('[data-testid=stPopoverBody]') !== null"
FONT_SIZE = "() => parseFloat(getComputedStyle(document.querySelector('.st-key-figure_dumbbell .ytick text')).fontSize)"


@pytest.fixture(scope="module")
def experiment(server: Server) -> int:
    store = Store(server.database_url)
    try:
        store.ensure_schema(wait_s=LOAD_MS / 1000)
        return store_experiment(store, DIGITS | {"seeds": [0]}).id
    finally:
        store.close()


def assert_a_popover_is_entered_and_left_in_order(page: Page) -> None:
    button, first = page.get_by_role("button", name="Choose runs"), page.get_by_role("combobox", name="Experiment")
    button.press("Enter")
    expect(first).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Tab")
    expect(first).to_be_focused()
    for _ in range(8):
        page.keyboard.press("Tab")
        if not page.evaluate(IN_POPOVER):
            break
    expect(page.get_by_role("button", name="Export report (HTML)")).to_be_focused()
    expect(page.get_by_role("dialog", name="Choose runs")).to_be_hidden()


def assert_the_navigation_of_a_phone_is_entered_and_left_by_keyboard(page: Page) -> None:
    page.set_viewport_size(PHONE)
    button = page.get_by_role("button", name="Open navigation")
    button.press("Enter", timeout=LOAD_MS)
    close = page.get_by_role("button", name="Close navigation")
    expect(close).to_be_focused()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    button.press("Enter")
    expect(close).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(close).to_be_hidden()


def assert_states_show_in_forced_colors(page: Page) -> None:
    page.emulate_media(forced_colors="active")
    grounds: dict[str, set[str]] = {"true": set(), "false": set()}
    for is_chosen, ground in page.get_by_role("radio").evaluate_all(GROUNDS):
        grounds[is_chosen].add(ground)
    assert len(grounds["true"]) == 1 and not grounds["true"] & grounds["false"]
    expect(page.locator("[data-testid=stCheckbox] label > div").first).to_have_css("border-top-width", "1px")
    page.emulate_media(forced_colors="none")


def assert_prints_what_was_found(page: Page) -> None:
    page.emulate_media(media="print")
    expect(page.locator(".st-key-strip_row")).to_be_hidden()
    expect(page.get_by_role("button", name="Choose runs")).to_be_hidden()
    expect(page.locator(".st-key-figure_dumbbell")).to_have_css("break-inside", "avoid")
    page.emulate_media(media="screen")


def opened(page: Page, server: Server, address: str) -> None:
    page.goto(f"{server.url}{address}")
    page.wait_for_selector("h1", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def test_an_expander_opens_at_once_with_reduced_motion(page: Page, server: Server, experiment: int) -> None:
    opened(page, server, "/library")
    expander = page.locator(".st-key-library_import details")
    assert expander.evaluate(OPENING) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert expander.evaluate(OPENING) > 0  # it closes as slowly as it opens


def test_the_keyboard_reaches_controls_in_order_and_opens_tables_and_downloads_and_presenting_enlarges_text(
    page: Page, server: Server, experiment: int
) -> None:
    opened(page, server, f"/compare?experiment={experiment}")
    page.wait_for_selector(".st-key-figure_dumbbell .main-svg", timeout=LOAD_MS)
    order = ["Personalized", "5 %", "Last round", "Choose runs", "Export report (HTML)"]
    expected, visited = [*order, "Accuracy", "Choose clients", "mean"], []
    for _ in range(50):
        page.keyboard.press("Tab")
        visited.append(page.evaluate(FOCUS).strip().split("\n")[0])
    places = [visited.index(name) for name in expected if name in visited]
    assert len(places) == len(expected), visited
    assert places == sorted(places), visited
    assert_a_popover_is_entered_and_left_in_order(page)
    button = page.locator(".st-key-figure_dumbbell").get_by_role("button", name="Table · Download")
    button.focus(timeout=LOAD_MS)
    page.keyboard.press("Enter")
    png = page.locator(".pictures").get_by_role("button", name="PNG")
    expect(png).to_be_visible(timeout=LOAD_MS)
    png.focus()
    with page.expect_download(timeout=LOAD_MS) as waiting:
        page.keyboard.press("Enter")
    assert waiting.value.suggested_filename == "low-mean-top.png"

    page.keyboard.press("Escape")
    assert_states_show_in_forced_colors(page)
    assert_prints_what_was_found(page)
    usual = page.evaluate(FONT_SIZE)
    turn_to(page, f"{server.url}/compare?experiment={experiment}&presenting=true")
    page.wait_for_selector(".st-key-figure_dumbbell .ytick text", timeout=LOAD_MS)
    assert page.evaluate(FONT_SIZE) > 1.2 * usual
    assert page.get_by_role("button", name="Table · Download").count() == 0
    assert_the_navigation_of_a_phone_is_entered_and_left_by_keyboard(page)
