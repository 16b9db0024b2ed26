"""Write screenshots of the pages, light and dark, with the runs of a database.

    DATABASE_URL=sqlite:////.../fedscape.db DATA_DIR=... python -m docs.screenshots [page ...]

Needs Chromium. Starts the app, shows the experiment with the most methods, and presses the buttons that request
analyses. Images are reduced to a palette, so that they are small.
"""

import io
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from benchmarks.running import chromium, running_app
from storage import RunRecord
from storage.store import store_from_env

FOLDER = Path(__file__).parent
WIDTH, LOAD_MS, COMPUTE_MS, SETTLED_MS = 1280, 60_000, 600_000, 2_500
COLORS = 192
SHOWN = ("local_train", "fedavg", "pfedme", "ditto", "cgpfl", "cgpfl_heur", "fedrep", "plgu_lf")  # on Compare


@dataclass(frozen=True)
class Shot:
    """A screenshot. ``path`` may contain ``{runs}``, those of one ``{seed}``, or the run of a method ``{cgpfl}``."""

    path: str
    height: int
    button: str | None = None  # pressed if it is on the page
    scroll_to: str | None = None  # the heading at the top of the image


SHOTS = {
    "learn": Shot("/?story=dial&spread=1&share=0.1", 1010, "Show the result"),
    "setup": Shot("/setup", 1180),
    "live": Shot("/live?runs={seed}", 1330),
    "compare": Shot("/compare?runs={runs}", 1000),
    "compare-clients": Shot("/compare?runs={runs}&section=clients", 1180),
    "run": Shot("/run?id={cgpfl}&client=3", 1010),
    "clusters": Shot("/run?id={cgpfl}&tab=clusters", 1290, scroll_to="Do the clusters settle?"),
    "landscape": Shot("/run?id={plgu_lf}&tab=landscape&client=3", 1240, "Compute landscape"),
    "features": Shot("/run?id={plgu_lf}&tab=features", 1300, "Compute features"),
    "layers": Shot("/run?id={plgu_lf}&tab=layers", 1180),
    "papers": Shot("/papers", 1080),
    "library": Shot("/library", 1080),
    "handbook": Shot("/handbook?method=gpfl", 1200),
}


def main(names: list[str]) -> None:
    places = names_of_places()
    with running_app() as url, chromium() as browser:
        for name in names or SHOTS:
            for scheme in ("light", "dark"):
                png = picture(browser, url + SHOTS[name].path.format_map(places), SHOTS[name], scheme)
                path = FOLDER / f"{name}-{scheme}.png"
                path.write_bytes(small(png))
                print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def names_of_places() -> dict[str, str]:
    """The values for the addresses, from the experiment with the most methods: the first run of each method."""
    store = store_from_env(FOLDER.parent)
    store.ensure_schema()
    by_experiment: dict[int, list[RunRecord]] = {}
    for run in store.queue.runs():
        by_experiment.setdefault(run.experiment_id, []).append(run)
    store.close()
    if not by_experiment:
        sys.exit("no runs in this database; set DATABASE_URL to one with results")
    most = max(by_experiment.values(), key=lambda own: len({run.label for run in own}))
    runs = sorted(most, key=lambda run: run.id)
    first = {run.algorithm: run for run in reversed(runs)}
    shown = [run for run in runs if run.algorithm in SHOWN and run.label == first[run.algorithm].label] or runs
    seed = [run for run in shown if run.seed == runs[0].seed]
    places = {name: ",".join(str(run.id) for run in own) for name, own in (("runs", shown), ("seed", seed))}
    return places | {algorithm: str(run.id) for algorithm, run in first.items()}


def picture(browser: Browser, url: str, shot: Shot, scheme: str) -> bytes:
    """The page as PNG, once everything on it is drawn."""
    page = browser.new_page(viewport={"width": WIDTH, "height": shot.height}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(url)
    settled(page)
    if shot.button and page.get_by_role("button", name=shot.button).count():
        page.get_by_role("button", name=shot.button).click()
        page.wait_for_selector(".js-plotly-plot .main-svg", timeout=COMPUTE_MS)
        settled(page)
    if shot.scroll_to:
        page.get_by_role("heading", name=shot.scroll_to).evaluate("node => node.scrollIntoView()")
        page.get_by_test_id("stMain").evaluate("node => node.scrollBy(0, -90)")  # below the navigation
        settled(page)
    png = page.screenshot()
    page.close()
    return png


def settled(page: Page) -> None:
    page.get_by_role("heading", level=1).wait_for(timeout=LOAD_MS)
    page.wait_for_selector("[data-test-script-state=notRunning]", timeout=LOAD_MS)
    page.wait_for_selector(".stSkeleton", state="detached", timeout=LOAD_MS)
    page.wait_for_timeout(SETTLED_MS)


def small(png: bytes) -> bytes:
    """The same image with fewer colors."""
    written = io.BytesIO()
    few = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    few.save(written, "PNG", optimize=True)
    return written.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
