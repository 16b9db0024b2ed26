"""The app on a free port and a Chromium, for measurements and screenshots of pages."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from playwright.sync_api import Browser, sync_playwright

from app.__main__ import answers

ROOT = Path(__file__).resolve().parents[1]
START_S, STOP_S = 120.0, 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def running_app() -> Iterator[str]:
    """Runs ``python -m app`` in this process's environment; yields its address."""
    with App(free_port()).running() as app:
        yield app.url


class App:
    """``python -m app`` on local ports; can be restarted. ``changed``: environment variables."""

    def __init__(self, port: int, log: BinaryIO | None = None, servers: int = 1, **changed: str) -> None:
        """``log`` receives the app's output; by default only errors are shown. ``port`` is that of the first server."""
        self.urls, self._log = [f"http://127.0.0.1:{port + i}" for i in range(servers)], log
        own = {"HOST": "127.0.0.1", "PORT": str(port), "FEDSCAPE_WEB": str(servers)}
        self._environment = os.environ | own | changed
        self.supervisor: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.urls[0]

    @contextmanager
    def running(self) -> Iterator["App"]:
        """Runs the app within the context."""
        self.start()
        try:
            self.wait_until_healthy()
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        self.supervisor = subprocess.Popen(
            [sys.executable, "-m", "app"],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log or subprocess.DEVNULL,
            stderr=self._log,
        )

    @property
    def is_running(self) -> bool:
        return self.supervisor is not None and self.supervisor.poll() is None

    def wait_until_healthy(self) -> None:
        until = time.monotonic() + START_S
        while not all(map(answers, self.urls)):
            if not self.is_running or time.monotonic() > until:
                raise SystemExit(f"the app did not start within {START_S:g} s; run `python -m app` to see why")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stops the app, as Ctrl-C does."""
        if self.supervisor is not None:
            self.supervisor.send_signal(signal.SIGINT)
            try:
                self.supervisor.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.supervisor.kill()
                self.supervisor.wait()
                raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser that the tests use."""
    found = subprocess.run([ROOT / ".ci" / "chromium"], capture_output=True, text=True, check=True).stdout.strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()
