"""Every page: what axe finds, a name for each figure, the keyboard and its ring, a phone, nothing that moves."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server

OPENING = """async fold => {
  fold.querySelector('summary').click();
  await new Promise(requestAnimationFrame);
  return fold.getAnimations().filter(animation => animation.effect.getTiming().duration > 0).length;
}"""
PAGES = (
    "/",
    "/?story=dial",
    "/setup",
    "/live?experiment={experiment}",
    "/compare?experiment={experiment}",
    "/run?id={run}",
    "/run?id={run}&tab=clusters",
    "/run?id={run}&tab=record",
    "/papers",
    "/papers?preset=fedprox-synthetic&scale=paper",
    "/library",
    "/handbook",
    "/handbook?method=ditto",
    "/handbook?show=datasets",
)
ALLOWED = {
    # st.latex scrolls a wide formula in an element of its own, which takes no tabindex. Chromium and Firefox let the
    # keyboard scroll it all the same.
    ("scrollable-region-focusable", ".katex-display"),
}
"""Violations of axe that only Streamlit could mend: the rule, and the selector of the element."""
AXE = """async only => {
  const found = await axe.run(document, {resultTypes: ["violations"], ...(only && {runOnly: only})});
  return found.violations.flatMap(({id, nodes}) => nodes.map(({target, html, any, all, none}) =>
    [id, target.at(-1), html.slice(0, 200), [...any, ...all, ...none].map(check => check.message).join("; ")])); }"""
UNTOLD = """() => [...document.querySelectorAll('.js-plotly-plot')].filter(plot => plot.getClientRects().length > 0)
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
MOVING = """() => document.getAnimations().filter(a => a.playState === 'running'
  && a.effect.getComputedTiming().duration > 1).map(a => a.animationName ?? a.transitionProperty)"""
FOCUS = "() => document.activeElement?.innerText || document.activeElement?.ariaLabel || ''"


@pytest.fixture(scope="module")
def given(server: Server) -> dict[str, int]:
    """An experiment, and its run with clusters."""
    store = Store(server.database_url)
    try:
        store.ensure_schema(wait_s=LOAD_MS / 1000)
        experiment = store_experiment(store, DIGITS | {"seeds": [0]}).id
        runs = store.queue.runs(experiment_ids=[experiment])
        return {"experiment": experiment, "run": next(run.id for run in runs if run.algorithm == "cgpfl")}
    finally:
        store.close()


def opened(page: Page, server: Server, address: str) -> None:
    page.goto(f"{server.url}{address}")
    page.wait_for_selector("h1", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def violations(page: Page, *only: str) -> list[list[str]]:
    """What axe finds, of all its rules or ``only`` these, once nothing is drawn any more."""
    page.evaluate(AXE_SCRIPT)
    for wait_ms in (0, 1000, 4000):
        page.wait_for_timeout(wait_ms)
        found = page.evaluate(AXE, list(only) or None)
        found = [one for one in found if (one[0], one[1]) not in ALLOWED]
        if not found:
            break
    return found


def faint_rings(page: Page, stops: int) -> list[str]:
    """What has the focus at the first ``stops`` of the Tab key, with a ring fainter than 3:1."""
    faint = []
    for _ in range(stops):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # after the last
        contrast = page.evaluate(RING)
        if contrast < 3:
            faint.append(f"{contrast:.2f}: {page.evaluate(FOCUS)[:60]}")
    page.evaluate("document.activeElement.blur()")  # closes its tooltip
    return faint


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_accessible_on_a_phone_in_light_and_dark(
    address: str, page: Page, server: Server, given: dict[str, int], page_problems: PageProblems
) -> None:
    opened(page, server, address.format(**given))
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.evaluate(UNTOLD) == []
    assert page.evaluate(MOVING) == []
    assert faint_rings(page, 24) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with page.expect_navigation():
        page.emulate_media(color_scheme="dark")
    page.wait_for_selector("h1", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    assert page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor") == "rgb(16, 23, 26)"
    assert faint_rings(page, 8) == []
    assert violations(page, "color-contrast") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page_problems == PageProblems()


def test_an_expander_opens_at_once_with_reduced_motion(page: Page, server: Server, given: dict[str, int]) -> None:
    opened(page, server, "/library")
    fold = page.locator(".st-key-library_import details")
    assert fold.evaluate(OPENING) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert fold.evaluate(OPENING) > 0  # it closes as slowly as it opens


def test_the_keyboard_reaches_controls_in_order_and_opens_tables_and_downloads(
    page: Page, server: Server, given: dict[str, int]
) -> None:
    opened(page, server, "/compare?experiment={experiment}".format(**given))
    page.wait_for_selector(".st-key-figure_dumbbell .main-svg", timeout=LOAD_MS)
    order = ["Personalized", "5 %", "Last round", "Choose runs", "Export report (HTML)"]
    wanted, visited = [*order, "Accuracy", "Choose clients", "mean"], []
    for _ in range(50):
        page.keyboard.press("Tab")
        visited.append(page.evaluate(FOCUS).strip().split("\n")[0])
    places = [visited.index(name) for name in wanted if name in visited]
    assert len(places) == len(wanted), visited
    assert places == sorted(places), visited
    button = page.locator(".st-key-figure_dumbbell").get_by_role("button", name="Table · Download")
    button.focus(timeout=LOAD_MS)
    page.keyboard.press("Enter")
    png = page.locator(".pictures").get_by_role("button", name="PNG")
    expect(png).to_be_visible(timeout=LOAD_MS)
    png.focus()
    with page.expect_download(timeout=LOAD_MS) as waiting:
        page.keyboard.press("Enter")
    assert waiting.value.suggested_filename == "low-mean-top.png"


def test_presenting_enlarges_text_in_figures(page: Page, server: Server, given: dict[str, int]) -> None:
    size = "() => parseFloat(getComputedStyle(document.querySelector('.st-key-figure_dumbbell .ytick text')).fontSize)"
    sizes = []
    for more in ("", "&presenting=true"):
        opened(page, server, "/compare?experiment={experiment}".format(**given) + more)
        page.wait_for_selector(".st-key-figure_dumbbell .ytick text", timeout=LOAD_MS)
        sizes.append(page.evaluate(size))
    assert sizes[1] > 1.2 * sizes[0]
    assert page.get_by_role("button", name="Table · Download").count() == 0
