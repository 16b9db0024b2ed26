"""One Chromium with one profile, one page and one running app for all browser tests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    WebError,
    WebSocket,
    expect,
    sync_playwright,
)
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from app.__main__ import answers
from benchmarks.running import free_port
from engine.config.schema import parse_experiment
from engine.core.paths import PLUGINS
from engine.exchange.records import new_run
from storage import Store

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--no-maglev,--no-opt",  # a page runs most of its scripts once: optimizing them takes longer
)
VIEWPORT: ViewportSize = {"width": 1280, "height": 900}
LOAD_MS = 60_000
READY = "[data-test-script-state=notRunning]"
PLACEHOLDER = "[data-testid=stSkeleton]"  # the placeholder of an element that is still loading
IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"
TURN = "address => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')); }"
TWO_FRAMES = "() => new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
FINISHED = ForwardMsg.ScriptFinishedStatus.FINISHED_SUCCESSFULLY
SHORT = 500  # bytes: more than a message without content has
CONNECTIONS = WeakKeyDictionary[Page, WebSocket]()  # the latest one to the app
START_S = 100  # on a machine that may be busy
STOP_S = 20
TRAIN_S = 100
TRAINED = {
    "name": "one of each kind",
    "dataset": {"name": "digits"},
    "partition": {"name": "classes_per_client", "num_clients": 8, "classes_per_client": 4, "test_fraction": 0.25},
    "model": {"name": "dnn", "hidden": 8},
    "training": {"rounds": 10, "local_steps": 5, "batch_size": 20, "lr": 0.1},
    "algorithms": [
        {"name": "fedavg"},
        {"name": "local_train"},
        {"name": "cgpfl", "K": 2, "label": "CGPFL K=2"},
        {"name": "cgpfl_heur"},
        {"name": "plgu_lf"},
    ],
    "seeds": [0, 1],
}


@dataclass
class PageProblems:
    """Console errors of pages and their requests to other hosts."""

    console_errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("request", self._request)

    def unwatch(self, context: BrowserContext) -> None:
        context.remove_listener("console", self._console)
        context.remove_listener("weberror", self._error)
        context.remove_listener("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.console_errors.append(message.text)

    def _error(self, error: WebError) -> None:
        self.console_errors.append(str(error.error))

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname != "127.0.0.1":
            self.foreign_requests.append(request.url)


@dataclass(frozen=True)
class Server:
    """The running app, with its own port and database."""

    url: str
    database_url: str
    data_dir: Path
    log: Path
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=LOAD_MS)  # 5 s are too few on busy cores, also after a press
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_chromium(), args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def profile(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for all tests, which caches the app's files like a user's browser."""
    kept = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    yield kept
    kept.close()


@pytest.fixture(scope="session")
def used_page(profile: BrowserContext) -> Page:
    """The page of all tests that need only one; its process has compiled the app's scripts."""
    return waiting_for_content(profile.new_page())


@pytest.fixture(scope="session")
def strangers_page(browser: Browser) -> Iterator[Page]:
    """The page of all tests that need another user's browser: with a profile of its own, kept for the same reason."""
    kept = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    yield waiting_for_content(kept.new_page())
    kept.close()


@pytest.fixture
def context(profile: BrowserContext, used_page: Page) -> Iterator[BrowserContext]:
    """``profile`` with one empty page and nothing stored except its cache."""
    yield profile
    forget(used_page)


@pytest.fixture
def stranger(strangers_page: Page) -> Iterator[Page]:
    """An empty page of another user's browser, whose problems ``page_problems`` does not record."""
    yield strangers_page
    forget(strangers_page)


def forget(used_page: Page) -> None:
    """Leaves its browser with this page only, empty, and with nothing stored except its cache."""
    profile = used_page.context
    for page in profile.pages:
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear(), sessionStorage.clear()")
        if page is not used_page:
            page.close()
    profile.clear_cookies()
    profile.unroute_all()
    emptied(used_page)


def emptied(page: Page) -> None:
    """Undoes what a test can do to a page, except ``add_init_script``: see ``goto_with``."""
    page.unroute_all()
    # The app reloads itself when its color scheme changes. A dark page that was left sometimes came back.
    if page.evaluate(IS_DARK):
        page.route("**", lambda route: route.abort("aborted"))
    page.goto("about:blank")
    page.set_viewport_size(VIEWPORT)
    page.emulate_media(media="null", color_scheme="light", reduced_motion="reduce", forced_colors="none")
    page.mouse.move(0, 0)
    page.unroute_all()


@pytest.fixture
def page_problems(context: BrowserContext) -> Iterator[PageProblems]:
    """The problems of all pages of ``context``."""
    seen = PageProblems()
    seen.watch(context)
    yield seen
    seen.unwatch(context)


@pytest.fixture
def page(context: BrowserContext, used_page: Page, page_problems: PageProblems) -> Page:
    """An empty page, which waits until everything is drawn before it clicks."""
    return used_page


def waiting_for_content(page: Page) -> Page:
    page.add_locator_handler(page.locator(PLACEHOLDER).first, lambda: None)  # waits until there is none
    page.on("websocket", lambda connection: CONNECTIONS.update({page: connection}))
    return page


def goto_with(page: Page, url: str, script: str) -> None:
    """Loads the address after ``script``, for this time only. Playwright's init scripts cannot be removed."""
    session = page.context.new_cdp_session(page)
    session.send("Page.enable")
    session.send("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    page.goto(url)
    session.detach()  # removes the script


def turn_to(page: Page, url: str) -> None:
    """Opens the address and waits for its script: within the app, as a link does, if the page shows the app.

    Loading a page takes most of its processor time. The attribute in ``READY`` does not tell when the script has ended:
    Streamlit may draw its start and its end at once, and then the attribute does not change.
    """
    if urlsplit(page.url).netloc == urlsplit(url).netloc:
        with CONNECTIONS[page].expect_event("framereceived", ends_a_page, timeout=LOAD_MS):
            page.evaluate(TURN, url)
        page.evaluate(TWO_FRAMES)
    else:
        page.goto(url)
    page.wait_for_selector(READY, timeout=LOAD_MS)


def ends_a_page(frame: bytes | str) -> bool:
    """Whether this message says that a page's whole script has ended, not one of its fragments."""
    if isinstance(frame, str) or len(frame) > SHORT:
        return False
    message = ForwardMsg.FromString(frame)
    return message.WhichOneof("type") == "script_finished" and message.script_finished == FINISHED


@contextmanager
def noting(what: str) -> Iterator[None]:
    """Adds a note to a failure in a loop."""
    try:
        yield
    except Exception as problem:
        problem.add_note(f"with {what}")
        raise


@dataclass(frozen=True)
class Trained:
    """An experiment whose runs were trained by the app's workers, so that their models are stored."""

    experiment: int
    runs: dict[tuple[str, int], int]  # (algorithm, seed) -> id
    store: Store


@pytest.fixture(scope="session")
def trained(server: Server) -> Iterator[Trained]:
    """Queues the experiment and waits: eight clients, two seeds, methods with and without clusters and layers."""
    store = Store(server.database_url)
    store.ensure_schema(wait_s=START_S)
    queued = [new_run(run) for run in parse_experiment(TRAINED).runs()]
    experiment = store.experiments.create(TRAINED["name"], TRAINED, queued).id
    until, runs = time.monotonic() + TRAIN_S, store.queue.runs(experiment_ids=[experiment])
    while any(run.is_active for run in runs) and time.monotonic() < until:
        time.sleep(0.3)
        runs = store.queue.runs(experiment_ids=[experiment])
    assert {run.status for run in runs} == {"done"}, [(run.label, run.status, run.error) for run in runs]
    yield Trained(experiment, {(run.algorithm, run.seed): run.id for run in runs}, store)
    store.close()


@pytest.fixture(scope="session")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """``python -m app``, started once and stopped by Ctrl-C. Depends on the browser, which marks its tests."""
    home = tmp_path_factory.mktemp("server")
    running = start_server(home)
    yield running
    stop_server(running)


def start_server(home: Path, port: int | None = None, **settings: str) -> Server:
    port, database_url, log = port or free_port(), f"sqlite:///{home / 'fedscape.db'}", home / "server.log"
    environment = os.environ | {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "DATABASE_URL": database_url,
        "DATA_DIR": str(home / "data"),
        PLUGINS: str(Path(__file__).parent / "plugins"),
        **settings,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app"], cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    server = Server(f"http://127.0.0.1:{port}", database_url, home / "data", log, process)
    _wait_until_healthy(server)
    return server


def stop_server(server: Server) -> None:
    server.process.send_signal(signal.SIGINT)
    try:
        server.process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.process.kill()
        pytest.fail(f"the app was still running {STOP_S} s after Ctrl-C; its log:\n{server.log.read_text()[-4000:]}")


def _wait_until_healthy(server: Server) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.process.poll() is None:
        if answers(server.url):
            return
        time.sleep(0.2)
    server.process.kill()
    server.process.wait()
    pytest.fail(f"the app did not come up; its log:\n{server.log.read_text()[-4000:]}")


def _chromium() -> str:
    """The one ``make test`` finds."""
    found = subprocess.run([ROOT / ".ci" / "chromium"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.fail(found.stderr)
    return found.stdout.strip()
