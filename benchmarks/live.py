"""What the Live page costs the web server while runs train: share of a core, and bytes per second and browser.

    python -m benchmarks.live [--runs 6] [--seconds 30] [--browsers 1]

The runs train in the app's workers, one slot each. The server is measured first without a reader, then with the page
open and drawn. The bytes are those of the live feed, the status strip and the page's WebSocket, as counted by Chromium.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from benchmarks.processes import WEB, parts_of_app, process_tree, usage
from benchmarks.running import App, chromium
from benchmarks.soak import soaked

SETTLE_S = 8.0
ROUTES = {"/live/feed": "feed", "/live/overview": "strip"}
SOCKET = "WebSocket"


class Traffic:
    """Bytes that a page has received since the last call of ``take``, by purpose."""

    def __init__(self, page: Page) -> None:
        self._received: Counter[str] = Counter()
        self._requests: dict[str, str] = {}
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self._on_request)
        session.on("Network.loadingFinished", self._on_data)
        session.on("Network.webSocketFrameReceived", self._on_frame)

    def take(self) -> Counter[str]:
        received, self._received = self._received, Counter()
        return received

    def _on_request(self, event: dict[str, Any]) -> None:
        for route, name in ROUTES.items():
            if route in event["request"]["url"]:
                self._requests[event["requestId"]] = name

    def _on_data(self, event: dict[str, Any]) -> None:
        if name := self._requests.pop(event["requestId"], None):
            self._received[name] += event["encodedDataLength"]

    def _on_frame(self, event: dict[str, Any]) -> None:
        # a binary message arrives in base64: four characters for three bytes
        self._received[SOCKET] += 0.75 * len(event["response"]["payloadData"])


def server_cpu_s(app: App) -> float:
    assert app.supervisor is not None
    return sum(usage(process).cpu_s for process in parts_of_app(process_tree(app.supervisor.pid))[WEB])


def share_of_a_core(app: App, seconds: float, page: Page | None = None) -> float:
    started, used = time.monotonic(), server_cpu_s(app)
    if page is None:
        time.sleep(seconds)
    else:
        page.wait_for_timeout(seconds * 1000)  # processes the browser's messages
    return (server_cpu_s(app) - used) / (time.monotonic() - started)


def opened(browser: Browser, address: str) -> tuple[Page, Traffic]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    traffic = Traffic(page)
    page.goto(address)
    page.wait_for_selector("[data-figure=cost] .main-svg", timeout=60_000)
    page.wait_for_timeout(SETTLE_S * 1000)
    traffic.take()
    return page, traffic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--browsers", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        soaked(Path(folder), given.runs) as (app, _, runs),
        chromium() as browser,
    ):
        time.sleep(SETTLE_S)
        print(f"web server without a reader: {share_of_a_core(app, given.seconds):.2%} of a core")
        address = f"{app.url}/live?runs={','.join(str(run.id) for run in runs)}"
        pages = [opened(browser, address) for _ in range(given.browsers)]
        for _, traffic in pages:
            traffic.take()
        share = share_of_a_core(app, given.seconds, pages[0][0])
        print(f"with {given.browsers} on Live, {given.runs} runs training: {share:.2%} of a core")
        received = sum((traffic.take() for _, traffic in pages), Counter())
        for name, sent in sorted(received.items()):
            print(f"{name:10} {sent / given.seconds / given.browsers / 1000:6.2f} kB/s to each")


if __name__ == "__main__":
    main()
