"""What is blocked in a browser: pages of another port, frames, and requests to other hosts."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import LOAD_MS, READY, Server

ATTACK = """async app => {
  const opened = address => new Promise(resolve => {
    const socket = new WebSocket(address);
    socket.onopen = () => resolve("open");
    socket.onclose = () => resolve("closed");
  });
  const read = address => fetch(address, {credentials: "include"}).then(answer => answer.text(), () => "refused");
  const framed = new Promise(resolve => {
    const frame = document.createElement("iframe");
    frame.onload = () => { try { frame.contentWindow.document; resolve("own"); } catch { resolve("foreign"); } };
    frame.src = app; document.body.append(frame);
  });
  await framed;
  return {
    socket: await opened(app.replace("http", "ws") + "/_stcore/stream"),
    feed: await read(app + "/live/overview"), health: await read(app + "/_stcore/health"),
  };
}"""
PICTURE = """() => new Promise(resolve => {
  document.addEventListener("securitypolicyviolation", e => resolve([e.effectiveDirective, e.blockedURI]));
  new Image().src = "http://127.0.0.1:9/x.png";
})"""
CALL = """() => fetch("http://127.0.0.1:9/x").then(() => "answered", error => error.name)"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """An empty page of another local server."""
    (tmp_path / "index.html").write_text("<!doctype html><title>Elsewhere</title>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_page_of_another_port_cannot_connect_read_or_frame_the_app(
    browser: Browser, server: Server, elsewhere: str
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(elsewhere)
    assert page.evaluate(ATTACK, server.url) == {"socket": "closed", "feed": "refused", "health": "refused"}
    (frame,) = [frame for frame in page.frames if frame != page.main_frame]
    assert not frame.url.startswith(server.url)
    context.close()


@pytest.mark.slow
def test_a_page_of_the_app_loads_nothing_from_other_hosts(browser: Browser, server: Server) -> None:
    context = browser.new_context()  # without ``page_problems``, since blocked requests are console errors
    page = context.new_page()
    opened(page, server)
    assert page.evaluate(PICTURE) == ["img-src", "http://127.0.0.1:9/x.png"]
    assert page.evaluate(CALL) == "TypeError"
    context.close()


def opened(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/library")
    page.wait_for_selector(READY, timeout=LOAD_MS)
