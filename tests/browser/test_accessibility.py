"""Every page: headings in order, a name for each control and figure, the keyboard, a phone, nothing that moves."""

from itertools import pairwise
from typing import Literal

import pytest
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
    "/library",
    "/handbook",
    "/handbook?method=ditto",
    "/handbook?show=datasets",
)
SEEN = "const seen = node => node.getClientRects().length > 0;"
LEVELS = f"""() => {{ {SEEN}
  return [...document.querySelectorAll('h1, h2, h3, h4')].filter(seen).map(head => +head.tagName[1]); }}"""
UNNAMED = f"""() => {{ {SEEN}
  const named = node => node.textContent.trim() || node.ariaLabel || node.title || node.labels?.length
    || node.getAttribute('aria-labelledby') || node.querySelector('[aria-label], title');
  return [...document.querySelectorAll('button, a[href], input, select, textarea, [role=slider]')]
    .filter(seen).filter(node => !named(node)).map(node => node.outerHTML.slice(0, 200)); }}"""
UNTOLD = f"""() => {{ {SEEN}
  return [...document.querySelectorAll('.js-plotly-plot')].filter(seen)
    .filter(plot => !plot.closest('[aria-label]')?.ariaLabel.trim()).map(plot => plot.outerHTML.slice(0, 200)); }}"""
# Out of use, or the ends of a slider, which show while it is held.
ASIDE = "[disabled], [aria-disabled=true], [data-testid^=stSliderT], [data-testid=stSlider] :not(label *)"
FAINT = f"""() => {{ {SEEN}
  const ASIDE = "{ASIDE}";
  const parts = color => {{ const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; }};
  const over = (top, ground) => ground.map((v, i) => top[i] * top[3] + v * (1 - top[3]));
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  return [...document.querySelectorAll('p, li, td, th, dd, dt, h1, h2, h3, label, code, .kicker, .lead')]
    .filter(seen).filter(node => node.textContent.trim())
    .filter(node => !node.closest(ASIDE))
    .map(node => {{
      let ground = [255, 255, 255], opacity = 1;
      const line = []; for (let at = node; at; at = at.parentElement) line.push(getComputedStyle(at));
      for (const style of line.toReversed()) {{
        ground = over(parts(style.backgroundColor), ground);
        opacity *= style.opacity;
      }}
      const ink = parts(line[0].color); ink[3] *= opacity;
      const [one, other] = [light(over(ink, ground)), light(ground)].sort((a, b) => b - a);
      return [(one + 0.05) / (other + 0.05), node.textContent.trim().slice(0, 60)];
    }}).filter(([contrast]) => contrast < 4.45); }}"""
MOVING = """() => document.getAnimations().filter(a => a.playState === 'running'
  && a.effect.getComputedTiming().duration > 1).map(a => a.animationName ?? a.transitionProperty)"""
FOCUS = "() => document.activeElement?.innerText || document.activeElement?.ariaLabel || ''"
OUTLINE = """() => { const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none'; }"""


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


def at_rest(page: Page, question: str) -> list[object]:
    """The result once nothing is drawn any more, since tables are filled late."""
    found: list[object] = page.evaluate(question)
    for _ in range(20):
        if not found:
            break
        page.wait_for_timeout(500)
        found = page.evaluate(question)
    return found


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_accessible_on_a_phone_in_light_and_dark(
    address: str, page: Page, server: Server, given: dict[str, int], page_problems: PageProblems
) -> None:
    opened(page, server, address.format(**given))
    levels = page.evaluate(LEVELS)
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(UNTOLD) == []
    assert page.evaluate(MOVING) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert at_rest(page, FAINT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with page.expect_navigation():
        page.emulate_media(color_scheme="dark")
    page.wait_for_selector("h1", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    assert page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor") == "rgb(16, 23, 26)"
    assert at_rest(page, FAINT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page_problems == PageProblems()


@pytest.mark.parametrize(("wish", "moves"), [("reduce", False), ("no-preference", True)])
def test_an_expander_opens_at_once_with_reduced_motion(
    wish: Literal["reduce", "no-preference"], moves: bool, page: Page, server: Server, given: dict[str, int]
) -> None:
    page.emulate_media(reduced_motion=wish)
    opened(page, server, "/library")
    assert bool(page.locator(".st-key-library_import details").evaluate(OPENING)) == moves


def test_the_keyboard_reaches_controls_in_order_with_visible_focus(
    page: Page, server: Server, given: dict[str, int]
) -> None:
    opened(page, server, "/compare?experiment={experiment}".format(**given))
    page.wait_for_selector(".st-key-figure_dumbbell .main-svg", timeout=LOAD_MS)
    order = ["Personalized", "5 %", "Last round", "Choose runs", "Export report (HTML)"]
    wanted, visited = [*order, "Accuracy", "Choose clients", "mean"], []
    for _ in range(40):
        page.keyboard.press("Tab")
        visited.append(page.evaluate(FOCUS).strip().split("\n")[0])
        if visited[-1] in wanted:
            assert page.evaluate(OUTLINE), visited[-1]
    places = [visited.index(name) for name in wanted if name in visited]
    assert len(places) == len(wanted), visited
    assert places == sorted(places), visited


def test_tables_and_downloads_open_from_the_keyboard(page: Page, server: Server, given: dict[str, int]) -> None:
    opened(page, server, "/compare?experiment={experiment}".format(**given))
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
