"""The dot on the Learn page moves because the engine trains, in a figure that stays where it is."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import Server, Witness

LOAD_MS = 60_000
FIGURE = "document.querySelector('.st-key-figure_dial_figure .moving')"
ERROR = f"{FIGURE}?.data?.find((trace) => trace.name === 'your run')?.y[0]"
IN_ADDRESS = "['spread=3', 'share=together'].every((part) => location.search.includes(part))"


def test_playing_brings_the_dot_down_in_the_same_figure(page: Page, server: Server, witness: Witness) -> None:
    page.goto(f"{server.url}/?spread=0&share=0.1")
    page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    untrained = page.evaluate(ERROR)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{ERROR} < {untrained}", timeout=LOAD_MS)
    page.evaluate(f"{FIGURE}.querySelector('.main-svg').dataset.seen = 'before'")
    page.wait_for_function(f"{ERROR} < {untrained / 5}", timeout=LOAD_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=LOAD_MS)
    assert page.evaluate(f"{FIGURE}.querySelector('.main-svg').dataset.seen") == "before"
    assert witness == Witness()


def test_scenes_glide_from_one_to_the_next_and_are_links(page: Page, server: Server, witness: Witness) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.goto(server.url)
    page.get_by_role("button", name="1 · Alike, alone").click(timeout=LOAD_MS)
    page.wait_for_function(f"{ERROR} < 5", timeout=LOAD_MS)
    page.get_by_role("button", name="3 · Different, together").click()
    page.wait_for_function(IN_ADDRESS, timeout=LOAD_MS)
    page.wait_for_function(f"{ERROR} > 6 && {ERROR} < 9", timeout=LOAD_MS)
    page.reload()
    expect(page.get_by_text("Now the truths lie far apart")).to_be_visible(timeout=LOAD_MS)
    assert witness == Witness()
