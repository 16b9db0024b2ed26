"""The app on a port of its own and a Chromium beside it, for what looks at pages: measurements and pictures."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


@contextmanager
def running_app() -> Iterator[str]:
    """``python -m app`` in this process' environment, until it is no longer needed. Answers its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url, environment = f"http://127.0.0.1:{port}", os.environ | {"HOST": "127.0.0.1", "PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "app"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        while not _is_healthy(url):
            if process.poll() is not None:
                raise SystemExit("the app did not come up; start it by itself to see why: python -m app")
            time.sleep(0.2)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser that the tests use."""
    found = subprocess.run([ROOT / ".ci" / "chromium"], capture_output=True, text=True, check=True).stdout.strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


def _is_healthy(url: str) -> bool:
    try:
        with urlopen(f"{url}/_stcore/health", timeout=1):
            return True
    except (URLError, TimeoutError, ConnectionError):
        return False
