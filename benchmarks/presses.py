"""How fast a page responds to a click.

    python -m benchmarks.presses [--times 20] [--url http://127.0.0.1:8501 --compare compare?experiment=1]

For each control the median and the worst, in milliseconds from the click: until anything on the page changes, and until
the result is drawn. The last line is the first visit of a new browser, until the figure of the first story is drawn.
Without ``--url`` the app runs on a free port with ten runs to compare, whose accuracies are generated.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Locator, Page

from benchmarks.pages import configs, generated
from benchmarks.running import chromium, running_app
from storage import Store

WAIT_MS = 60_000
PAUSE_MS = 700  # between presses
IDLE = """(document.querySelector('[data-test-script-state=notRunning]') && !document.querySelector('.stSkeleton')
    && [...document.querySelectorAll('.stPlotlyChart, .moving')].every((place) => place.querySelector('.main-svg')))"""
READING = "document.querySelector('.reading')?.textContent"
TITLE = "document.querySelector('h1')?.textContent"
FINDING = "document.querySelector('h2')?.textContent"
WATCH = """() => {
    const shown = () => RESULT, before = shown(), times = window.times = {};
    const observer = new MutationObserver(() => { times.change ??= performance.now() - times.start; });
    const look = () => {
        if (shown() !== before && IDLE) { times.result = performance.now() - times.start; observer.disconnect(); }
        else requestAnimationFrame(look);
    };
    document.addEventListener("pointerdown", () => {
        times.start = performance.now();
        observer.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
        requestAnimationFrame(look);
    }, {once: true, capture: true});
}""".replace("IDLE", IDLE)


@dataclass(frozen=True)
class Press:
    """``names`` of the controls pressed in turn, and the text (JavaScript) that shows the result."""

    title: str
    address: str
    role: str
    names: tuple[str, ...]
    result: str


LEARN = "?story=dial"


def presses(compare: str) -> tuple[Press, ...]:
    return (
        Press("Step", LEARN, "button", ("Step",), READING),
        Press("Next scene", LEARN, "button", ("Next →", "← Previous"), READING),
        Press("Another story", LEARN, "radio", ("8 · ", "7 · "), TITLE),
        Press("Compare: global or personalized", compare, "radio", ("Global", "Personalized"), FINDING),
    )


def measured(page: Page, press: Press, times: int) -> Iterator[tuple[float, float]]:
    """(change, result) in milliseconds of each press, after one press of each control to warm up."""
    for at in range(-len(press.names), times):
        control = _control(page, press, press.names[at % len(press.names)])
        page.wait_for_function(IDLE, timeout=WAIT_MS)
        page.wait_for_timeout(PAUSE_MS)
        page.evaluate(WATCH.replace("RESULT", press.result))
        control.click()
        seen = page.wait_for_function("window.times.result && window.times", timeout=WAIT_MS).json_value()
        if at >= 0:
            yield seen["change"], seen["result"]


def _control(page: Page, press: Press, name: str) -> Locator:
    found = page.get_by_role(press.role, name=name)  # type: ignore[arg-type]
    found.first.wait_for(timeout=WAIT_MS)
    return found.first


def first_visit(browser: Browser, url: str) -> float:
    """Milliseconds until a browser with nothing cached has drawn the first story."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_function(f"document.querySelector('.moving .main-svg') && {IDLE}", timeout=WAIT_MS)
    took: float = page.evaluate("performance.now()")
    context.close()
    return took


@contextmanager
def app_with_runs() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{Path(folder) / 'presses.db'}"
        store = Store(os.environ["DATABASE_URL"])
        store.ensure_schema()
        store.experiments.import_finished("ten runs", {}, (generated(one, 20) for one in configs(10, 50, 20)))
        store.close()
        with running_app() as url:
            yield url


def in_words(title: str, values: list[float]) -> str:
    return f"{title:34} {median(values):8.0f} {max(values):8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--url", help="of a running app, instead of a new one")
    parser.add_argument("--compare", default="compare?experiment=1", help="address of the comparison below the URL")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        url = arguments.url or stack.enter_context(app_with_runs())
        browser = stack.enter_context(chromium())
        print(f"{'milliseconds':34} {'median':>8} {'worst':>8}")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        for press in presses(arguments.compare):
            page.goto(f"{url}/{press.address}")
            changes, results = zip(*measured(page, press, arguments.times), strict=True)
            print(in_words(f"{press.title}, change", list(changes)))
            print(in_words(f"{press.title}, result", list(results)), flush=True)
        visits = [first_visit(browser, url) for _ in range(arguments.times)]
        print(in_words("First visit", visits))


if __name__ == "__main__":
    main()
