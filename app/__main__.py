"""``python -m app``: the dispatcher and the web servers as children of a supervisor that does nothing else.

A child that dies is restarted, at growing intervals while it keeps dying; when no web server is left, the app ends.
Ctrl-C or SIGTERM stops all of them.
"""

import ctypes
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.access.rules import rules
from app.server import settings
from engine.cli.broken_pipe import ignoring_broken_pipes
from engine.core.paths import PLUGINS, ROOT, plugin_folders

RESTART_AFTER_S = (1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_AFTER_S = 60.0  # after living this long, a child restarts with the shortest wait
STOP_S = 8.0
POLL_S = 0.2
SECRETS = (
    "FEDSCAPE_OIDC_CLIENT_SECRET",
    "FEDSCAPE_COOKIE_SECRET",
    "STREAMLIT_SERVER_COOKIE_SECRET",
)  # of the web server
PR_SET_PDEATHSIG = 1  # linux/prctl.h
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # http_proxy cannot reach this machine's servers


@dataclass
class Child:
    """A program that runs for as long as the app does."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    start_at: float = 0.0

    def start(self) -> None:
        # In its own process group, so that Ctrl-C reaches only the supervisor, which then stops its children in order.
        # Not in its own session: Linux divides cores among sessions first, so niceness counts only within one.
        self.process = subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,  # a background process group is stopped when it reads from the terminal
            process_group=0,
            preexec_fn=_end_with_supervisor,
        )
        self.started_at = time.monotonic()

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def keep_running(self, at: float) -> None:
        """Detect that it died, and restart it after its wait."""
        if self.is_running:
            return
        if self.start_at == 0.0:
            self.failures = 0 if at - self.started_at > STEADY_AFTER_S else self.failures
            wait = RESTART_AFTER_S[min(self.failures, len(RESTART_AFTER_S) - 1)]
            self.failures, self.start_at = self.failures + 1, at + wait
            print(f"The {self.name} has stopped; restarting in {wait:g} s.", file=sys.stderr, flush=True)
        elif at >= self.start_at:
            self.start_at = 0.0
            self.start()

    def ask_to_stop(self) -> None:
        if self.process is not None and self.is_running:
            self.process.send_signal(signal.SIGTERM)

    def wait_or_kill(self, until: float) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Supervisor:
    """Keeps the dispatcher and the web servers running."""

    dispatcher: Child
    web: Sequence[Child]
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, addresses: Sequence[str]) -> int:
        """Run until stopped (0) or no web server is left (1). Prints ``addresses`` once all of them respond."""
        children = (self.dispatcher, *self.web)
        for child in children:
            child.start()
        announced = False
        try:
            while not self.stop.wait(POLL_S):
                if not any(child.is_running for child in self.web):
                    what = "The web server has" if len(self.web) == 1 else "All web servers have"
                    print(f"{what} stopped; see the reason above.", file=sys.stderr, flush=True)
                    return 1
                if not announced and all(map(answers, addresses)):
                    announced = True
                    print(f"Fedscape is at {' and '.join(addresses)}  (Ctrl-C stops it)", flush=True)
                for child in children:
                    child.keep_running(time.monotonic())
            return 0
        finally:
            self.stop_children()

    def stop_children(self) -> None:
        children = (*self.web, self.dispatcher)
        for child in children:
            child.ask_to_stop()
        until = time.monotonic() + STOP_S
        for child in children:
            child.wait_or_kill(until)


def children(environment: Mapping[str, str]) -> Supervisor:
    """The programs, configured by the environment. Raises InvalidSetting."""
    paths = [str(ROOT), environment.get("PYTHONPATH")]
    given = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if plugins := plugin_folders(environment):
        given[PLUGINS] = os.pathsep.join(map(str, plugins))
    host = settings.host(environment)
    server = {
        "server.address": host,
        "server.headless": "true",
        "browser.serverAddress": settings.DEFAULT_HOST if settings.listens_everywhere(environment) else host,
    }
    options = [f"--{name}={value}" for name, value in server.items()]
    options += [f"--server.allowedHosts={name}" for name in settings.allowed_hosts(environment)]
    if sign_in := rules(environment).sign_in:
        given["STREAMLIT_SERVER_COOKIE_SECRET"] = sign_in.cookie_secret  # not as an option: those are seen by all users
    engine = [sys.executable, "-m", "engine", "worker"]
    without_secrets = {name: value for name, value in given.items() if name not in SECRETS}
    # The small runs of Learn gain nothing from threads, which would compete with busy workers.
    of_web = {"OMP_NUM_THREADS": "1", **given}
    ports = settings.ports(environment)
    return Supervisor(
        Child("worker", engine, without_secrets),
        [
            Child(
                "web server" if len(ports) == 1 else f"web server on port {port}",
                [sys.executable, "-m", "streamlit", "run", "app/server/asgi.py", *options, f"--server.port={port}"],
                of_web,
            )
            for port in ports
        ],
    )


def main() -> int:
    with ignoring_broken_pipes():
        return _supervise()


def _supervise() -> int:
    try:
        settings.check_access(os.environ)
        settings.check_ports(os.environ)
        settings.check_database(os.environ)
        settings.check_plugins()
        supervisor = children(os.environ)
    except settings.InvalidSetting as error:
        print(error, file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: supervisor.stop.set())
    return supervisor.run(settings.addresses(os.environ))


def _end_with_supervisor() -> None:
    """In the child: on Linux the kernel sends it SIGTERM when the supervisor is gone for any reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def answers(address: str) -> bool:
    try:
        with DIRECT.open(f"{address}/_stcore/health", timeout=1):
            return True
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException):
        return False


if __name__ == "__main__":
    sys.exit(main())
