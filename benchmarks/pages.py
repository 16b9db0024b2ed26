"""How long each page takes to open with many runs, and how many bytes it sends, with generated accuracies.

    python -m benchmarks.pages [--runs 50] [--rounds 500] [--clients 100] [--pages compare live]

Server: one run of the page's script, with empty and with filled caches. Chromium: from the navigation until the last
chart is drawn (0 where there is none) and until nothing visible changes any more; a table's text for screen readers
lies inside its canvas and comes later. Three situations:

    first   a new profile, which must load and compile all scripts, on a server that has just started
    cold    a browser with cached scripts, and a new server that had two seconds to fill its caches
    again   the server has served the page before: median of three visits

Bytes include files and WebSocket messages. Shift is how much visible content moves while the page loads: the sum over
movements of the affected share of the screen times the distance (web.dev/cls; up to 0.1 is good).
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
from playwright.sync_api import Browser, Page
from streamlit.testing.v1 import AppTest

from benchmarks.running import ROOT, App, chromium, free_port
from engine.config.schema import RunConfig, parse_experiment
from engine.exchange.records import new_run
from engine.metrics import summarize_clients
from storage import FinishedRun, RoundRecord, Store

METHODS = (
    "fedavg",
    "local_train",
    "fedprox",
    "ditto",
    "pfedme",
    "cgpfl",
    "fedrep",
    "fedper",
    "apfl",
    "scaffold",
)
QUIET_MS = 700  # a page is complete when nothing has changed for this long
SITUATIONS = ("first", "cold", "again")
WARM_UP = 3  # visits until the browser has cached compiled scripts
SETTLE_S = 2.0  # a new server reads ahead what all pages need, and the newest comparison
Visit = tuple[float, float, float, float]  # seconds until the last chart and until nothing changes; megabytes; shift
SHIFTS = """window.shifted = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => window.shifted += entry.value))
    .observe({type: 'layout-shift', buffered: true});"""
DRAWN = """() => {
    const plots = [...document.querySelectorAll('.js-plotly-plot, .stPlotlyChart')];
    const ready = document.querySelector('[data-test-script-state=notRunning]')
        && !document.querySelector('.stSkeleton') && plots.every((plot) => plot.querySelector('.main-svg'));
    const state = ready ? document.querySelectorAll(':not(canvas *)').length : -1;
    const drawn = document.querySelectorAll('.main-svg').length, now = performance.now();
    if (drawn !== window.lastDrawn) { window.lastDrawn = drawn; window.lastChart = drawn ? now : 0; }
    if (state !== window.lastState) { window.lastState = state; window.lastChange = now; }
    return state > 0 && now - window.lastChange > QUIET ? [window.lastChart, window.lastChange] : 0;
}""".replace("QUIET", str(QUIET_MS))


def configs(num_runs: int, rounds: int, clients: int) -> list[RunConfig]:
    seeds = -(-num_runs // len(METHODS))
    runs = parse_experiment(
        {
            "name": "many runs",
            "dataset": "digits",
            "model": "mlr",
            "algorithms": list(METHODS),
            "partition": {"name": "classes_per_client", "num_clients": clients, "classes_per_client": 3},
            "training": {"rounds": rounds},
            "seeds": list(range(seeds)),
        }
    ).runs()
    return list(runs)[:num_runs]


def generated(config: RunConfig, clients: int) -> FinishedRun:
    """A run as the engine would store it, with random numbers."""
    random = np.random.default_rng(config.seed)
    final, everyone = random.uniform(0.6, 0.95, clients), np.arange(clients)
    paths = ["personalized"] if config.algorithm.name == "local_train" else ["personalized", "global"]
    sizes, rounds, last = np.full(clients, 20), [], {}
    for at in range(config.training.rounds + 1):
        accuracy = (final * (1 - np.exp(-at / 40)) + random.normal(0, 0.01, clients)).clip(0, 1)
        last = summarize_clients(accuracy, sizes)
        scalars = {"bytes_up": 1e5, "bytes_down": 1e5, "gradient_evaluations": 1e3, "seconds": 0.05}
        scalars |= {f"{path}.{name}": value for path in paths for name, value in last.items()}
        arrays = {f"{path}.accuracy": accuracy.astype(np.float32) for path in paths}
        arrays |= {f"{path}.loss": (1 - accuracy).astype(np.float32) for path in paths}
        arrays["train_loss"] = arrays["personalized.loss"]
        rounds.append(RoundRecord(at, everyone.astype(np.int32), scalars, arrays))
    best = {path: {"round": rounds[-1].round, **last} for path in paths}
    partition = {
        "train_sizes": [60] * clients,
        "val_sizes": [0] * clients,
        "test_sizes": sizes.tolist(),
        "class_counts": [[8] * 10] * clients,
    }
    return FinishedRun(new_run(config), "done", rounds, {}, partition, dict.fromkeys(paths, last) | {"best": best})


def seconds_on_the_server(page: str) -> float:
    app = AppTest.from_file(str(ROOT / "app" / "views" / f"{page}.py"), default_timeout=300)
    started = time.perf_counter()
    app.run()
    if app.exception:
        raise SystemExit(f"{page}: {app.exception[0].value}")
    return time.perf_counter() - started


def counted_page(browser: Browser) -> tuple[Page, list[float]]:
    """A page in a new profile, and the megabytes it has received so far."""
    page, received = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce"), [0.0]
    page.add_init_script(SHIFTS)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")

    def add(size: float) -> None:
        received[0] += size / 1e6

    session.on("Network.loadingFinished", lambda event: add(event["encodedDataLength"]))
    # a binary message arrives in base64: four characters for three bytes
    session.on("Network.webSocketFrameReceived", lambda event: add(0.75 * len(event["response"]["payloadData"])))
    return page, received


def in_the_browser(browser: Browser, address: str) -> Iterator[Visit]:
    """``first``, ``cold`` and ``again``. The server keeps its port, since browsers cache by address."""
    app, (page, received) = App(free_port()), counted_page(browser)

    def visit() -> Visit:
        received[0] = 0.0
        page.goto(f"{app.url}/{address}")
        charts_ms, still_ms = page.wait_for_function(DRAWN, polling=50, timeout=120_000).json_value()
        return charts_ms / 1000, still_ms / 1000, received[0], page.evaluate("window.shifted")

    with app.running():
        yield visit()
        for _ in range(WARM_UP):
            visit()
    page.goto("about:blank")
    with app.running():
        time.sleep(SETTLE_S)
        yield visit()
        charts, still, megabytes, shift = (median(values) for values in zip(*(visit() for _ in range(3)), strict=True))
        yield charts, still, megabytes, shift
    page.context.close()


def report(pages: list[str]) -> None:
    heading = f"{'charts s':>9} {'still s':>8} {'MB':>6} {'shift':>6}"
    print(f"{'page':10} {'server s':>9} {'again':>6}" + "".join(f" | {name:6}{heading}" for name in SITUATIONS))
    server = {page: (seconds_on_the_server(page), seconds_on_the_server(page)) for page in pages}
    with chromium() as browser:
        for page in pages:
            print("{:10} {:9.2f} {:6.2f}".format(page, *server[page]), end="", flush=True)
            for seen in in_the_browser(browser, "" if page == "learn" else page):
                print(" | {:6}{:9.2f} {:8.2f} {:6.2f} {:6.2f}".format("", *seen), end="", flush=True)
            print(flush=True)


def main() -> None:
    every_page = sorted(path.stem for path in (ROOT / "app" / "views").glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--pages", nargs="+", default=every_page, choices=every_page)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{Path(folder) / 'pages.db'}"
        store = Store(os.environ["DATABASE_URL"])
        store.ensure_schema()
        runs = configs(arguments.runs, arguments.rounds, arguments.clients)
        made = (generated(config, arguments.clients) for config in runs)
        store.experiments.import_finished("many generated runs", {}, made)
        store.close()
        print(f"{len(runs)} runs of {arguments.rounds} rounds and {arguments.clients} clients")
        report(arguments.pages)


if __name__ == "__main__":
    main()
