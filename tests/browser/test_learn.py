"""The dot on the Learn page moves because the engine trains, in a figure that stays where it is."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import Server, Witness

LOAD_MS = 60_000
FIGURE = "document.querySelector('.st-key-figure_dial_figure .moving')"
ERROR = f"{FIGURE}.data.find((trace) => trace.name === 'your run').y[0]"


def test_playing_brings_the_dot_down_in_the_same_figure(page: Page, server: Server, witness: Witness) -> None:
    page.goto(f"{server.url}/?spread=0&share=0.1")
    page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    untrained = page.evaluate(ERROR)
    page.evaluate(f"{FIGURE}.querySelector('.main-svg').dataset.seen = 'before'")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{ERROR} < {untrained / 5}", timeout=LOAD_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=LOAD_MS)
    assert page.evaluate(f"{FIGURE}.querySelector('.main-svg').dataset.seen") == "before"
    assert witness == Witness()


def test_a_scene_is_a_link(page: Page, server: Server) -> None:
    page.goto(server.url)
    page.get_by_role("button", name="3 · Different, together").click(timeout=LOAD_MS)
    page.wait_for_url("**/?spread=3&share=together", timeout=LOAD_MS)
    page.reload()
    expect(page.get_by_text("Now the truths lie far apart")).to_be_visible(timeout=LOAD_MS)
