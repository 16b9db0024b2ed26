"""The Learn page while it trains: figures stay in place, dots move, sliders are links."""

import re

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from app.stories import stories
from tests.browser.accessible import PHONE
from tests.browser.conftest import LOAD_MS, PageProblems, Server, goto_with, noting, turn_to

pytestmark = pytest.mark.slow

DIAL = "document.querySelector('.st-key-figure_dial_figure .moving')"
CLIENTS = "document.querySelector('.st-key-figure_client_figure .moving')"
ERROR = f"{DIAL}?.data?.find((trace) => trace.name === 'your run')?.y[0]"
MEAN = f"{DIAL}?.data?.find((trace) => trace.name === 'your mean')?.y[0]"
SLOW_DRAWING = """{
  let library;
  const slow = (react) => async (place, ...rest) => {
    place.inFlight = (place.inFlight ?? 0) + 1;
    window.mostAtATime = Math.max(window.mostAtATime ?? 0, place.inFlight);
    await react(place, ...rest);
    await new Promise((resolve) => setTimeout(resolve, 400));
    place.inFlight--;
  };
  Object.defineProperty(window, "Plotly", {
    get: () => library, set: (loaded) => (library = Object.assign(loaded, {react: slow(loaded.react)})),
  });
}"""
PROJECTOR: ViewportSize = {"width": 1366, "height": 768}
LARGE_SCREEN: ViewportSize = {"width": 1920, "height": 1080}
DRAWN_WIDE = """(() => {
  const widths = [...document.querySelectorAll(".moving")].map((one) => one.querySelector(".main-svg")?.clientWidth);
  return widths.reduce((sum, width) => sum + width, 0) > 0.85 * innerWidth;
})()"""
FITS = """(() => {
  const main = document.querySelector("[data-testid=stMain]");
  const [figure, bar] = [".moving .main-svg", ".st-key-slide_bar"].map((at) =>
    document.querySelector(at).getBoundingClientRect());
  return main.scrollHeight <= main.clientHeight && figure.bottom <= bar.top && bar.bottom <= innerHeight;
})()"""
IN_A_COLUMN = """(() => {
  const parts = ["h1", "[class*=st-key-guess_] button", ".st-key-reveal", ".st-key-stage", ".st-key-slide_bar"];
  const [title, answer, reveal, stage, bar] = parts.map((at) => document.querySelector(at).getBoundingClientRect());
  return title.bottom <= answer.top && reveal.bottom <= stage.top && stage.bottom <= bar.top;
})()"""
IN_ADDRESS = "(...parts) => parts.flat().every((part) => location.search.includes(part))"


@pytest.mark.timeout(300)
def test_every_story_trains_on_a_phone(page: Page, server: Server, page_problems: PageProblems) -> None:
    page.set_viewport_size(PHONE)
    for slug, story in stories().items():
        with noting(slug):
            turn_to(page, f"{server.url}/?story={slug}")
            expect(page.get_by_role("heading", level=1)).to_have_text(story.title, timeout=LOAD_MS)
            page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            expect(page.locator(".reading")).to_have_count(1)  # that of the story before is gone
            before = page.locator(".reading").inner_text()
            page.get_by_role("button", name="Step").click()
            expect(page.locator(".reading")).not_to_have_text(before, timeout=LOAD_MS)
            assert page.get_by_test_id("stException").count() == 0
            assert page_problems == PageProblems()


def test_the_arrow_keys_move_the_slider_and_the_mean_falls(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.goto(f"{server.url}/?story=one-model&turn=0")
    page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{MEAN} > 90", timeout=LOAD_MS)
    page.get_by_role("slider").press("End")
    page.wait_for_function(IN_ADDRESS, arg=["turn=360"], timeout=LOAD_MS)
    page.wait_for_function(f"{MEAN} > 10 && {MEAN} < 60", timeout=LOAD_MS)
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=LOAD_MS)
    drawn = f"{CLIENTS}?.data?.find((trace) => trace.name === 'One model')?.y.length"
    page.wait_for_function(f"{drawn} === 20", timeout=LOAD_MS)
    assert page_problems == PageProblems()


def test_playing_moves_the_dot_in_the_same_figure_and_scenes_have_transitions_and_links(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.goto(f"{server.url}/?story=dial&spread=0&share=0.1")
    page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    untrained = page.evaluate(ERROR)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{ERROR} < {untrained}", timeout=LOAD_MS)
    page.evaluate(f"{DIAL}.querySelector('.main-svg').dataset.seen = 'before'")
    page.wait_for_function(f"{ERROR} < {untrained / 5}", timeout=LOAD_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=LOAD_MS)
    assert page.evaluate(f"{DIAL}.querySelector('.main-svg').dataset.seen") == "before"

    page.get_by_role("radio", name="c · Different, together").click()
    page.wait_for_function(IN_ADDRESS, arg=["spread=3", "share=together"], timeout=LOAD_MS)
    expect(page.get_by_role("status").filter(has_text="Scene 3 of 5")).to_be_visible(timeout=LOAD_MS)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{ERROR} > 6 && {ERROR} < 9", timeout=LOAD_MS)
    page.reload()
    expect(page.get_by_role("radio", name="c · Different, together")).to_be_checked(timeout=LOAD_MS)
    assert page_problems == PageProblems()


def test_scenes_clicked_during_a_transition_draw_one_figure_at_a_time(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.emulate_media(reduced_motion="no-preference")
    goto_with(page, f"{server.url}/?story=dial", SLOW_DRAWING)
    page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    for scene in ("b", "d", "c"):
        page.get_by_role("radio", name=f"{scene} · ").click()
        page.wait_for_timeout(600)
    expect(page.get_by_role("status").filter(has_text="Scene 3 of 5")).to_be_visible(timeout=LOAD_MS)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{ERROR} > 6 && {ERROR} < 9", timeout=LOAD_MS)
    assert page.evaluate("window.mostAtATime") == 1
    expect(page.get_by_text("cannot be drawn")).to_have_count(0)
    assert page_problems == PageProblems()


@pytest.mark.timeout(300)
def test_every_story_is_a_slide_in_a_lecture_room(page: Page, server: Server) -> None:
    page.set_viewport_size(PROJECTOR)
    for slug, story in stories().items():
        with noting(slug):
            turn_to(page, f"{server.url}/?story={slug}&presenting=true")
            expect(page).to_have_title(re.compile(re.escape(story.short)), timeout=LOAD_MS)
            assert_fits(page)
            expect(page.get_by_role("heading", level=1)).to_have_css("font-size", "36px")
            expect(page.get_by_role("navigation").or_(page.locator(".strip")).first).to_be_hidden()
    page.set_viewport_size(LARGE_SCREEN)
    assert_fits(page)


def assert_fits(page: Page) -> None:
    """The figure fills the slide, and nothing has to be scrolled."""
    page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    page.wait_for_function(DRAWN_WIDE, timeout=LOAD_MS)
    expect(page.get_by_role("button", name="Play")).to_be_in_viewport(timeout=LOAD_MS)
    page.wait_for_function(FITS, timeout=LOAD_MS)


def test_a_slide_on_a_phone_covers_nothing_and_ends_with_exit(page: Page, server: Server) -> None:
    page.set_viewport_size(PHONE)
    for slug in ("dial", "left-behind"):
        turn_to(page, f"{server.url}/?story={slug}&presenting=true")
        expect(page).to_have_title(re.compile(re.escape(stories()[slug].short)), timeout=LOAD_MS)
        page.get_by_role("button", name="Show the result").wait_for(timeout=LOAD_MS)
        page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
        page.wait_for_function(IN_A_COLUMN, timeout=LOAD_MS)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.get_by_role("button", name="Exit").click()
    page.wait_for_function("!location.search.includes('presenting')", timeout=LOAD_MS)
