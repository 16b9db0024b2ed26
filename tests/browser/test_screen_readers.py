"""Announcements for screen readers, tested on a small page without the app."""

from pathlib import Path

from playwright.sync_api import Page, expect

from app.server import index_page
from tests.browser.conftest import LOAD_MS, Server

SCRIPT = Path(index_page.__file__).with_name("screen_readers.js").read_text(encoding="utf-8")
PAGE = "<main data-testid='stMain'><h1>A story</h1><p class='reading'>This run: press Play</p></main>"
FORM = """<main data-testid="stMain">
<div class="stElementContainer"><input id="a" aria-label="Seeds"></div><div class="stElementContainer"></div>
<div class="stElementContainer"><input id="b" aria-label="Rounds"></div></main>"""
ERROR = "<div data-testid='stAlertContentError'>Whole numbers, please</div>"
RECORD = """() => {
  window.announced = [];
  const region = document.querySelector(".announcements");
  new MutationObserver(() => window.announced.push(region.textContent)).observe(region, { childList: true });
}"""
PLAY = """() => [1, 2, 3].forEach((round) => setTimeout(() => {
  document.querySelector(".reading").textContent = `This run, round ${round}`;
}, 100 * round))"""


def test_of_a_run_that_plays_only_the_end_is_announced(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/_stcore/health")
    page.evaluate("html => document.body.innerHTML = html", PAGE)
    page.evaluate(f"() => {{ {SCRIPT} }}")
    page.evaluate("document.querySelector('h1').append('')")  # the page is drawn after the script
    region = page.locator(".announcements")
    region.wait_for(state="attached", timeout=LOAD_MS)
    assert region.text_content() == ""
    page.evaluate(RECORD)
    page.evaluate(PLAY)
    expect(region).to_have_text("This run, round 3", timeout=LOAD_MS)
    assert page.evaluate("window.announced") == ["This run, round 3"]


def test_a_field_is_described_by_the_error_below_it_while_there_is_one(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/_stcore/health")
    page.evaluate("html => document.body.innerHTML = html", FORM)
    page.evaluate(f"() => {{ {SCRIPT} }}")
    field, below = page.get_by_label("Seeds"), page.locator(".stElementContainer").nth(1)
    below.evaluate("(below, html) => below.innerHTML = html", ERROR)
    expect(field).to_have_accessible_description("Whole numbers, please")
    assert field.get_attribute("aria-invalid") == "true"
    assert page.get_by_label("Rounds").get_attribute("aria-invalid") is None
    below.evaluate("below => below.replaceChildren()")
    expect(field).to_have_accessible_description("")
    assert field.get_attribute("aria-invalid") is None
