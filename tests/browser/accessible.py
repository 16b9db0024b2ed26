"""Accessibility checks: axe, a name for each figure, a visible focus ring, and no motion."""

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import LOAD_MS, READY

ALLOWED = {
    # st.latex scrolls a wide formula in an element of its own, which takes no tabindex. Chromium and Firefox let the
    # keyboard scroll it all the same.
    ("scrollable-region-focusable", ".katex-display"),
}
"""Violations of axe that only Streamlit could fix: the rule, and the selector of the element."""
AXE = """async only => {
  const found = await axe.run(document, {resultTypes: ["violations"], ...(only && {runOnly: only})});
  return found.violations.flatMap(({id, nodes}) => nodes.map(({target, html, any, all, none}) =>
    [id, target.at(-1), html.slice(0, 200), [...any, ...all, ...none].map(check => check.message).join("; ")])); }"""
UNNAMED = """() => [...document.querySelectorAll('.js-plotly-plot')].filter(plot => plot.getClientRects().length > 0)
  .filter(plot => !plot.closest('[aria-label]')?.ariaLabel.trim()).map(plot => plot.outerHTML.slice(0, 200))"""
RING = """() => {
  const parts = color => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, ground) => ground.map((v, i) => top[i] * top[3] + v * (1 - top[3]));
  const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const line = [];
  for (let at = document.activeElement; at; at = at.parentElement) line.push(getComputedStyle(at));
  const isRing = style => style.outlineStyle === 'solid' && parseFloat(style.outlineWidth) >= 2;
  const at = line.slice(0, 4).findIndex(isRing);  // a hidden input lends it to the frame around it
  if (at < 0) return 1;
  const ground = line.slice(at + 1).reverse().reduce((below, style) => over(parts(style.backgroundColor), below),
    [255, 255, 255]);
  const [one, other] = [light(over(parts(line[at].outlineColor), ground)), light(ground)].sort((a, b) => b - a);
  return (one + 0.05) / (other + 0.05); }"""
NOT_FADING = "() => !document.getAnimations().some(a => a.transitionProperty === 'opacity')"
MOVING = """() => document.getAnimations().filter(a => a.playState === 'running'
  && a.effect.getComputedTiming().duration > 1).map(a => a.animationName ?? a.transitionProperty)"""
FROM_THE_TOP = "(body => { body.tabIndex = -1; body.focus(); body.removeAttribute('tabindex'); })(document.body)"
FOCUS = "() => document.activeElement?.innerText || document.activeElement?.ariaLabel || ''"
DARK = "rgb(16, 23, 26)"
PHONE: ViewportSize = {"width": 390, "height": 800}


def assert_accessible_in_light(page: Page) -> None:
    """Leaves the viewport at the size of a phone."""
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(MOVING) == []
    assert faint_rings(page, 24) == []
    page.set_viewport_size(PHONE)
    assert_no_violations(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def assert_accessible_in_the_dark(page: Page) -> None:
    """Check a dark page on a phone for what depends on colors."""
    expect(page.locator(".stApp")).to_have_css("background-color", DARK)
    assert faint_rings(page, 8) == []
    assert_no_violations(page, "color-contrast")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def assert_no_violations(page: Page, *only: str) -> None:
    found = violations(page, *only)
    assert not found, found


def violations(page: Page, *only: str) -> list[list[str]]:
    """The violations that axe finds, of all its rules or ``only`` these, once drawing has ended."""
    if not page.evaluate("'axe' in window"):  # it still is on a page that the app has turned to
        page.evaluate(AXE_SCRIPT)
    for wait_ms in (0, 1000, 4000, 4000, 4000):
        page.wait_for_timeout(wait_ms)
        page.wait_for_selector(READY, timeout=LOAD_MS)  # a running script fades what it has not drawn again yet
        page.wait_for_function(NOT_FADING, timeout=LOAD_MS)
        found = page.evaluate(AXE, list(only) or None)
        found = [one for one in found if (one[0], one[1]) not in ALLOWED]
        if not found:
            break
    return found


def faint_rings(page: Page, stops: int) -> list[str]:
    """The elements at the first ``stops`` of the Tab key whose focus ring has a contrast below 3:1."""
    faint = []
    page.evaluate(FROM_THE_TOP)
    for stop in range(stops):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            assert stop, "the Tab key reaches nothing"
            break  # after the last
        for wait_ms in (0, 300, 1000):  # the element may be about to be redrawn
            page.wait_for_timeout(wait_ms)
            contrast = page.evaluate(RING)
            if contrast >= 3:
                break
        else:
            faint.append(f"{contrast:.2f}: {page.evaluate(FOCUS)[:60]}")
    page.evaluate("document.activeElement.blur()")  # closes its tooltip
    return faint
