"""Checks for leaks: long runs and open pages that follow them, side by side for some minutes.

    python -m benchmarks.soak [--minutes 10] [--runs 6] [--browsers 3] [--out FILE.json]

Starts the app with a slot for every run, and Chromium with pages of three kinds: Live, with clicks; Compare and Library
in turn; Inside, with one run after another. Every ten seconds it samples memory, threads and file handles of each part
of the app and of the browser, the web server's processor time, and the bytes of the live feed. It prints the values
at the start and at the end, and the slope over the second half, when caches are full.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as NotThere

from benchmarks.mixed_runs import queue_long
from benchmarks.processes import NO_USAGE, WEB, Usage, parts_of_app, process_tree, usage
from benchmarks.running import App, chromium
from storage import RunRecord, Store
from tests.support.ports import free_ports

SAMPLE_S = 10.0
CLICK_S = 5.0
CLICK_MS = 4000
PATIENCE_S = 60.0
BROWSERS = "browsers"


@dataclass
class Feed:
    """Bytes sent by the live feed, as counted by the browser."""

    sent_bytes: float = 0.0
    answers: int = 0
    _open: set[str] = field(default_factory=set)

    def watch(self, page: Page) -> None:
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self._on_request)
        session.on("Network.loadingFinished", self._on_data)

    def _on_request(self, event: dict[str, Any]) -> None:
        if "/live/feed" in event["request"]["url"]:
            self._open.add(event["requestId"])

    def _on_data(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self._open:
            self._open.remove(event["requestId"])
            self.sent_bytes += event["encodedDataLength"]
            self.answers += 1


@dataclass
class Reader:
    """A page and what its reader does from time to time."""

    page: Page
    steps: Iterator[str]  # addresses to open and buttons to press
    missed: int = 0

    def act(self) -> None:
        step = next(self.steps)
        try:
            if step.startswith("http"):
                self.page.goto(step)
            else:
                radio = self.page.get_by_role("radio", name=step)
                radio.or_(self.page.get_by_role("button", name=step)).first.click(timeout=CLICK_MS)
        except NotThere:
            self.missed += 1


@dataclass(frozen=True)
class Sample:
    at_s: float
    parts: dict[str, Usage]
    processes: dict[str, int]
    feed_bytes: float


def watched(app: App, readers: list[Reader], feed: Feed, minutes: float) -> list[Sample]:
    started = time.monotonic()
    until, sample_at, click_at = started + 60 * minutes, started, started + CLICK_S
    turns, samples = cycle(readers), []
    while (at := time.monotonic()) < until or len(samples) < 2:
        if at >= sample_at:
            samples.append(sample(app, feed, at - started))
            sample_at += SAMPLE_S
        if at >= click_at and readers:
            next(turns).act()
            click_at = time.monotonic() + CLICK_S
        if readers:
            readers[0].page.wait_for_timeout(200)  # processes the browser's messages
        else:
            time.sleep(0.2)
    return [*samples, sample(app, feed, time.monotonic() - started)]


def sample(app: App, feed: Feed, at_s: float) -> Sample:
    assert app.supervisor is not None
    own = process_tree(app.supervisor.pid)
    parts = {
        **parts_of_app(own),
        BROWSERS: [p for p in process_tree(os.getpid()) if "chrom" in p.command.partition(" ")[0]],
    }
    used = {part: sum((usage(process) for process in processes), NO_USAGE) for part, processes in parts.items()}
    return Sample(at_s, used, {part: len(processes) for part, processes in parts.items()}, feed.sent_bytes)


@contextmanager
def soaked(
    folder: Path, num_runs: int, first: Callable[[Store], object] = lambda _: None, servers: int = 1
) -> Iterator[tuple[App, Store, list[RunRecord]]]:
    """The app while it trains ``num_runs`` endless runs; ``first`` trains others before them."""
    url = f"sqlite:///{folder / 'soak.db'}"
    store = Store(url)
    with (folder / "app.log").open("wb") as log:
        (port, *_) = free_ports(servers)
        app = App(port, log, servers, DATABASE_URL=url, FEDSCAPE_SLOTS=str(num_runs), FEDSCAPE_THREADS="1")
        app.start()
        try:
            app.wait_until_healthy()
            store.ensure_schema(wait_s=PATIENCE_S)
            first(store)
            runs = queue_long(store, num_runs)
            ids, until = [run.id for run in runs], time.monotonic() + PATIENCE_S
            while any(run.round < 1 for run in store.queue.runs(run_ids=ids)):
                if time.monotonic() > until:
                    raise SystemExit(f"the runs did not start within {PATIENCE_S:g} s; see {log.name}")
                time.sleep(0.2)
            yield app, store, runs
        finally:
            app.stop()
            store.close()


def open_pages(browser: Browser, url: str, ids: list[int], number: int, feed: Feed) -> list[Reader]:
    """Opens ``number`` pages of alternating kinds, each in its own profile."""
    listed = ",".join(map(str, ids))
    kinds = (
        (f"{url}/live?runs={listed}", ["Megabytes", "Rounds"]),
        (f"{url}/compare?runs={listed}", [f"{url}/library", f"{url}/compare?runs={listed}"]),
        (f"{url}/run?id={ids[0]}", [f"{url}/run?id={i}" for i in (*ids[1:], ids[0])]),
    )
    readers = []
    for (first, steps), _ in zip(cycle(kinds), range(number), strict=False):
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        feed.watch(page)
        page.goto(first)
        readers.append(Reader(page, cycle(steps)))
    return readers


def report(samples: list[Sample]) -> dict[str, Any]:
    first, last = samples[0], samples[-1]
    seconds = last.at_s - first.at_s
    parts = {part: _change(part, samples) for part in last.parts}
    return {
        "seconds": round(seconds, 1),
        "parts": parts,
        "web_server_cores": round((last.parts[WEB].cpu_s - first.parts[WEB].cpu_s) / seconds, 3),
        "feed_bytes_a_second": round((last.feed_bytes - first.feed_bytes) / seconds),
    }


def show(found: dict[str, Any]) -> None:
    print(f"{'':14} {'processes':>9} {'MiB':>8} {'at end':>8} {'a minute':>8} {'threads':>12} {'handles':>12}")
    for part, row in found["parts"].items():
        print(f"{part:14} {row['processes']:9} {row['mib'][0]:8.1f} {row['mib'][1]:8.1f}", end=" ")
        print(f"{row['mib_a_minute']:+8.2f} {'{} to {}'.format(*row['threads']):>12}", end=" ")
        print(f"{'{} to {}'.format(*row['handles']):>12}")
    print(f"web server: {found['web_server_cores']:.1%} of a core; live feed: {found['feed_bytes_a_second']} bytes/s;")
    print(f"{found['rounds']} rounds in {found['seconds']:.0f} s; {found['missed']} clicks missed")


def _change(part: str, samples: list[Sample]) -> dict[str, Any]:
    """The change from the first sample to the last; the slope is over the second half."""
    first, last = (s.parts.get(part, NO_USAGE) for s in (samples[0], samples[-1]))
    late = samples[len(samples) // 2 :] if len(samples) > 3 else samples
    memory = [s.parts.get(part, NO_USAGE).memory_mib for s in late]
    slope = float(np.polyfit([s.at_s / 60 for s in late], memory, 1)[0])
    return {
        "processes": samples[-1].processes[part],
        "mib": (round(first.memory_mib, 1), round(last.memory_mib, 1)),
        "mib_a_minute": round(slope, 2),
        "threads": (first.threads, last.threads),
        "handles": (first.handles, last.handles),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--browsers", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fedscape-soak-") as folder,
        soaked(Path(folder), arguments.runs) as (app, store, runs),
        chromium() as browser,
    ):
        feed = Feed()
        readers = open_pages(browser, app.url, [run.id for run in runs], arguments.browsers, feed)
        samples = watched(app, readers, feed, arguments.minutes)
        rounds = sum(run.round for run in store.queue.runs(with_partition=False))
    found = report(samples) | {"rounds": rounds, "missed": sum(reader.missed for reader in readers)}
    show(found)
    if arguments.out:
        arguments.out.write_text(json.dumps(found | {"samples": [asdict(s) for s in samples]}, indent=2))


if __name__ == "__main__":
    main()
