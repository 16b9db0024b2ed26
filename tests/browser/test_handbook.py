"""The Handbook in a browser: formulas, links, and no page wider than the screen."""

import re
from pathlib import Path

import pytest
import streamlit
from playwright.sync_api import Page, expect

from app.data.entry_text import text_of
from app.handbook.mathematics import aligned
from engine.core.registry import ALGORITHMS
from tests.browser.conftest import LOAD_MS, PageProblems, Server

KATEX = next((Path(streamlit.__file__).parent / "static" / "static" / "js").glob("katex.*.js")).name
DRAW = """async ([address, blocks]) => {
  const katex = (await import(address)).default;
  return Object.entries(blocks).flatMap(([name, tex]) => {
    try { katex.renderToString(tex, {displayMode: true, throwOnError: true}); return []; }
    catch (error) { return [`${name}: ${error.message}`]; }
  });
}"""
CUT_OFF = "families => families.filter(f => f.scrollWidth > f.parentElement.clientWidth).map(f => f.textContent)"
WIDER = "document.documentElement.scrollWidth - innerWidth"


def test_the_equations_of_every_method_are_drawn_without_errors(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.goto(f"{server.url}/handbook?method=ditto")
    expect(page.locator(".katex-display")).to_be_visible(timeout=LOAD_MS)
    assert page.locator(".katex-error").count() == 0
    blocks = {entry.name: aligned(text_of(entry).equations) for entry in ALGORITHMS}
    assert page.evaluate(DRAW, [f"{server.url}/static/js/{KATEX}", blocks]) == []
    assert page.evaluate(DRAW, [f"{server.url}/static/js/{KATEX}", {"broken": "\\frac{"}]) != []
    assert page_problems == PageProblems()


@pytest.mark.slow
def test_links_lead_from_the_index_to_a_method_to_set_up(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.goto(f"{server.url}/handbook")
    page.locator(".family").last.wait_for(timeout=LOAD_MS)
    assert page.locator(".family").evaluate_all(CUT_OFF) == []  # a name would cover the links beside it
    page.get_by_role("link", name="CGPFL", exact=True).first.click(timeout=LOAD_MS)
    expect(page.get_by_role("heading", name="CGPFL")).to_be_visible(timeout=LOAD_MS)
    expect(page).to_have_url(re.compile("method=cgpfl"), timeout=LOAD_MS)
    a_term_opens_its_definition(page)
    page.get_by_role("link", name="Open in Set up").click()
    expect(page.get_by_role("heading", name="New experiment")).to_be_visible(timeout=LOAD_MS)
    expect(page.get_by_placeholder(re.compile("CGPFL")).first).to_be_visible(timeout=LOAD_MS)
    assert page_problems == PageProblems()


def a_term_opens_its_definition(page: Page) -> None:
    """By the keyboard, and under the mouse."""
    term, tip = page.locator(".term").first, page.locator(".tip:popover-open")
    term.press("Enter", timeout=LOAD_MS)
    expect(tip).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    expect(term).to_be_focused()
    term.hover()
    expect(tip).to_have_count(1)
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)


@pytest.mark.slow
def test_the_handbook_fits_a_narrow_screen(page: Page, server: Server) -> None:
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(f"{server.url}/handbook?method=cgpfl")
    expect(page.locator(".katex-display")).to_be_visible(timeout=LOAD_MS)
    assert page.evaluate(WIDER) <= 0
    page.get_by_role("link", name="All methods").click()
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible(timeout=LOAD_MS)
    assert page.evaluate(WIDER) <= 0
