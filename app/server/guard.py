"""The requests that the web server rejects, and the security headers for browsers.

A page of another origin, including another port of this machine, can neither open the WebSocket nor read a response.
No page can show the app in a frame. A browser loads images, scripts and data for the app's pages from this server only,
whatever a label or an imported file contains. Of Streamlit's own endpoints, only those that its pages use are open. Of
the messages that a browser can send, only those that pages send are passed on; others could clear the caches of all
readers or run git.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg

from app.access.rules import DEFAULT_PORTS

CORE = "/_stcore/"
OPEN = ("health", "host-config", "stream", "upload_file/", "bidi-components/")
"""Under CORE. Closed: session and memory counts (metrics), and anything that a later Streamlit adds."""

MESSAGES = ("rerun_script", "stop_script", "app_heartbeat", "file_urls_request")
OPERATIONS = ("deferred_file", "dataframe_chunk")  # of a ``backend_operation_request``
"""From a browser to Streamlit. Dropped: the others that Streamlit knows, any that a later one adds, and broken ones."""

FIXED = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Wraps the app. ``scripts`` are the inline scripts of its pages: the only ones that a browser may run."""

    def __init__(self, app: ASGIApp, scripts: Iterable[str]) -> None:
        self.app = app
        self.policy = policy(scripts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = self._with_headers(send, headers.get("host", ""))
        if not is_own_origin(headers.get("origin"), headers.get("host", "")):
            await _refuse(scope, receive, answer, 403, "Cross-origin requests are not allowed.")
        elif not is_open(scope["path"]):
            await _refuse(scope, receive, answer, 404, "Not Found")
        else:
            await self.app(scope, filtered(receive), answer)

    def _with_headers(self, send: Send, host: str) -> Send:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(FIXED)
                headers["Content-Security-Policy"] = self.policy(host)
            await send(message)

        return answer


def filtered(receive: Receive) -> Receive:
    """``receive`` without the WebSocket messages that no page sends."""

    async def received() -> Message:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive" or is_of_a_page(message.get("bytes")):
                return message

    return received


def is_of_a_page(data: bytes | None) -> bool:
    try:
        message = BackMsg.FromString(data or b"")
    except DecodeError:
        return False
    kind = message.WhichOneof("type")
    if kind == "backend_operation_request":
        return message.backend_operation_request.WhichOneof("payload") in OPERATIONS
    return kind in MESSAGES


def policy(scripts: Iterable[str]) -> Callable[[str], str]:
    """The Content-Security-Policy for a host. Styles may be inline: Streamlit writes them so."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()}'" for own in scripts)
    rules = {
        "default-src": "'self'",
        # blob: is how Streamlit loads a component's script; some of its charts compile their drawing code.
        "script-src": f"'self' blob: 'unsafe-eval' {hashes}",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "worker-src": "'self' blob:",
        "connect-src": "'self' ws://{host} wss://{host}",  # some browsers do not count a WebSocket as 'self'
        "frame-src": "'none'",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    text = "; ".join(f"{name} {sources}" for name, sources in rules.items())
    return lambda host: text.replace("{host}", host)


def inline_scripts(html: str) -> list[str]:
    """The inline scripts of a page."""
    return re.findall(r"<script>(.*?)</script>", html, re.DOTALL)


def is_own_origin(origin: str | None, host: str) -> bool:
    """Whether a request comes from a page of this server, by name and port, or from a program that is not a browser.

    The scheme is not compared: it differs behind a proxy that terminates TLS.
    """
    if origin is None:
        return True
    try:
        given, asked = urlsplit(origin), urlsplit(f"//{host}")
        default = DEFAULT_PORTS.get(given.scheme)
        same = (given.hostname, given.port or default) == (asked.hostname, asked.port or default)
        return same and default is not None
    except ValueError:  # an invalid port
        return False


def is_open(path: str) -> bool:
    if not path.startswith(CORE):
        return True
    name = path.removeprefix(CORE)
    return any(name.startswith(own) if own.endswith("/") else name == own for own in OPEN)


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
    else:
        await PlainTextResponse(reason, status)(scope, receive, send)
