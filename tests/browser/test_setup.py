"""Set up in a browser: the button is visible, and readable even if disabled."""

from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from app.setup.draft import DEFAULT
from app.state.links import pack_config
from tests.browser.accessible import violations
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server

pytestmark = pytest.mark.slow

CONTRAST = """label => {
  const parts = color => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, ground) => ground.map((v, i) => top[i] * top[3] + v * (1 - top[3]));
  const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const line = [];
  for (let at = label.querySelector('p'); at; at = at.parentElement) line.push(getComputedStyle(at));
  const ground = line.toReversed().reduce((below, style) => over(parts(style.backgroundColor), below), [255, 255, 255]);
  const [r, g, b, a] = parts(line[0].color), opacity = line.reduce((product, style) => product * style.opacity, a);
  const [one, other] = [light(over([r, g, b, opacity], ground)), light(ground)].sort((a, b) => b - a);
  return (one + 0.05) / (other + 0.05); }"""


def opened(page: Page, server: Server, config: dict[str, Any] | None = None) -> Locator:
    """The page with its button."""
    page.goto(f"{server.url}/setup" + (f"?config={pack_config(config)}" if config else ""))
    button = page.locator(".st-key-queue button")
    button.wait_for(timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    return button


def test_the_button_is_visible_on_a_laptop_and_the_keyboard_skips_to_it(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    button = opened(page, server)
    expect(button).to_be_enabled()
    expect(button).to_be_in_viewport(ratio=1)
    # On a slow machine the estimated time is longer and takes a second line.
    expect(page.locator(".st-key-figure_split .main-svg").first).to_be_in_viewport(ratio=0.8)
    for key in ("Tab", "Enter", "Tab", "Tab", "Tab", "Enter", "Tab"):  # past the navigation, then past the form
        page.keyboard.press(key)
    expect(button).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator("h1").scroll_into_view_if_needed()
    expect(button).to_be_in_viewport(ratio=1)
    assert page_problems == PageProblems()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_faint_texts_are_readable(scheme: Literal["light", "dark"], page: Page, server: Server) -> None:
    """The disabled button, and the labels of closed sections, which axe skips where another element may cover them."""
    page.emulate_media(color_scheme=scheme)
    button = opened(page, server, DEFAULT | {"training": {"lr": -1}})
    expect(button).to_be_disabled()
    assert button.evaluate(CONTRAST) >= 4.5
    for section in ("m1", "advanced"):
        assert page.locator(f".st-key-expander-setup_form-{section} summary").evaluate(CONTRAST) >= 4.5, section


def test_a_dial_is_switched_on_by_keyboard_and_all_of_them_are_accessible(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    opened(page, server, DEFAULT | {"algorithms": [{"name": "fedavg"}], "training": {"rounds": 2}})
    toggles = [page.get_by_role("switch", name=dial) for dial in ("Attack", "Aggregator", "Compression", "System")]
    for toggle in toggles:
        expect(toggle).not_to_be_checked()
        toggle.focus()
        page.keyboard.press("Space")
        expect(toggle).to_be_checked()
        page.wait_for_selector(READY, timeout=LOAD_MS)
    expect(page.get_by_role("combobox", name="Kind of attack")).to_be_visible()
    page.wait_for_function("location.search.includes('config=')")
    page.set_viewport_size({"width": 390, "height": 800})
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page_problems == PageProblems()


def test_a_number_typed_just_before_a_link_is_pressed_is_kept(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/setup")
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("spinbutton", name="Rounds (T)").fill("77")
    page.get_by_role("link", name="Handbook").first.click()
    page.wait_for_url("**/handbook*", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("link", name="Set up", exact=True).first.click()
    expect(page.get_by_role("spinbutton", name="Rounds (T)")).to_have_value("77", timeout=LOAD_MS)
    expect(page.get_by_role("combobox", name="Data set")).to_have_value("Digits (8 x 8)", timeout=LOAD_MS)
