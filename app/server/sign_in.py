"""Who may send which request, where people sign in or the app is read only: before Streamlit, and before our routes.

Without a valid cookie a browser gets the empty page, its scripts, and a connection that shows the button to sign in:
nothing that was computed, uploaded or stored. A connection ends when the sign-in does. After signing in, the browser
returns to the page with the button.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import runtime
from streamlit.runtime.stats import CacheStat

from app import endpoints, pages
from app.access import people, permits
from app.access.people import Person
from app.access.roles import reach
from app.access.rules import Rules

LOGIN, CALLBACK = "/auth/login", "/oauth2callback"
PUBLIC = ("/_stcore/health", "/_stcore/host-config", LOGIN, "/auth/logout", CALLBACK, "/favicon.png")
PUBLIC_FOLDERS = ("/static/", "/_stcore/bidi-components/")
UPLOADS = "/_stcore/upload_file/"
HARMLESS = ("GET", "HEAD", "OPTIONS")
POLICY_VIOLATION = 1008  # RFC 6455
RETURN, RETURN_S = "fedscape_return", 3600
MAX_HELD = 2 << 30  # bytes of uploads that are not stored yet; a page holds its own until it is closed
MAX_QUERY_LENGTH = 3000  # a cookie has up to about 4,000 characters


def middleware(rules: Rules) -> list[Middleware]:
    """Empty where everyone may do everything."""
    guard = [Middleware(SignInGuard, rules=rules)] if permits.has_restrictions(rules) else []
    return [Middleware(ReturnToPage, url=rules.sign_in.url), *guard] if rules.sign_in else guard


def secrets(rules: Rules) -> Mapping[str, Any] | None:
    """The configuration of ``st.login``; None without sign-in."""
    sign_in = rules.sign_in
    if sign_in is None:
        return None
    return {
        "auth": {
            "redirect_uri": f"{sign_in.url}{CALLBACK}",
            "cookie_secret": sign_in.cookie_secret,
            "client_id": sign_in.client_id,
            "client_secret": sign_in.client_secret,
            "server_metadata_url": f"{sign_in.issuer}/.well-known/openid-configuration",
        }
    }


class SignInGuard:
    """Wraps the app."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app, self.rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        person, ends_at = self._person(scope)
        if scope["type"] == "websocket":
            await self._connect(scope, receive, send, person, ends_at)
        elif person is None and not is_public(scope["path"]):
            await _refuse(scope, receive, send, 401, permits.SIGNED_OUT)
        elif person and not may_send(person, scope["method"], scope["path"]):
            await _refuse(scope, receive, send, 403, "You may not upload files here.")
        elif person and scope["method"] == "PUT" and scope["path"].startswith(UPLOADS) and held_bytes() >= MAX_HELD:
            reason = "The server's memory for uploads is full. Try again when other pages with uploads are closed."
            await _refuse(scope, receive, send, 503, reason)
        elif person:
            with permits.requested_by(person):
                await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _person(self, scope: Scope) -> tuple[Person | None, float]:
        """Who sent it, and when the sign-in ends, in seconds since 1970."""
        sign_in = self.rules.sign_in
        if sign_in is None:
            return permits.everyone(self.rules), float("inf")
        from app.access.cookie import claims_of  # here, since only sign-in needs it

        claims = claims_of(HTTPConnection(scope).cookies, sign_in)
        person = people.signed_in(claims, self.rules)
        return person, people.ends_at(claims, sign_in) if person else 0.0

    async def _connect(self, scope: Scope, receive: Receive, send: Send, person: Person | None, ends_at: float) -> None:
        if person is None:
            await self.app(as_stranger(scope), receive, send)
        elif ends_at == float("inf"):
            await self.app(scope, receive, send)
        else:
            connection = EndingConnection(receive, send, ends_at)
            await self.app(scope, connection.receive, connection.send)


class ReturnToPage:
    """Redirects a browser that has signed in to the page with the button, where Streamlit redirects to the start page.

    A cookie holds the address of that page until then.
    """

    def __init__(self, app: ASGIApp, url: str) -> None:
        self.app, self.url = app, url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == LOGIN:
            await self.app(scope, receive, self._with(send, self._remember(Headers(scope=scope).get("referer", ""))))
        elif path == CALLBACK:
            page = own_page(HTTPConnection(scope).cookies.get(RETURN, ""))
            await self.app(scope, receive, self._with(send, self._cookie("", 0), page))
        else:
            await self.app(scope, receive, send)

    def _remember(self, referer: str) -> str:
        page = own_page(referer.removeprefix(self.url)) if referer.startswith(f"{self.url}/") else None
        return self._cookie(page or "/", RETURN_S)

    def _cookie(self, value: str, seconds: int) -> str:
        secure = "; Secure" if self.url.startswith("https:") else ""
        return f"{RETURN}={value}; Path={CALLBACK}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"

    def _with(self, send: Send, cookie: str, page: str | None = None) -> Send:
        """Adds the cookie to the response, and redirects to the page instead of the start page."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.append("Set-Cookie", cookie)
                if page and headers.get("Location") == "/":
                    headers["Location"] = page
            await send(message)

        return answer


def own_page(address: str) -> str | None:
    """A page of the app with its query, encoded anew, or None: never an address of another host."""
    try:
        parts = urlsplit(address)
        query = urlencode(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        return None
    if parts.scheme or parts.netloc or parts.path not in _shells() or len(query) > MAX_QUERY_LENGTH:
        return None
    return f"{parts.path}?{query}" if query else parts.path


class EndingConnection:
    """A WebSocket that is closed when the sign-in ends: the browser then connects again, as nobody."""

    def __init__(self, receive: Receive, send: Send, ends_at: float) -> None:
        self._receive, self._send, self._ends_at = receive, send, ends_at
        self._is_closed = False

    async def receive(self) -> Message:
        try:
            return await asyncio.wait_for(self._receive(), max(self._ends_at - time.time(), 0.0))
        except TimeoutError:
            if not self._is_closed:
                self._is_closed = True
                await self._send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": permits.SIGNED_OUT})
            return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}

    async def send(self, message: Message) -> None:
        if not self._is_closed:
            self._is_closed = message["type"] == "websocket.close"
            await self._send(message)


def is_public(path: str) -> bool:
    """Whether it may be requested without a sign-in."""
    return path in (*PUBLIC, *_shells(), endpoints.PLOTLY) or path.startswith(PUBLIC_FOLDERS)


def may_send(person: Person, method: str, path: str) -> bool:
    """Uploads need the right to use them; everything else that changes something goes through the pages."""
    if method in HARMLESS or not path.startswith(UPLOADS):
        return True
    return any(reach(person.role, action) != "none" for action in ("upload", "import"))


def held_bytes() -> int:
    """The memory of the files that browsers have uploaded to pages that are still open."""
    if not runtime.exists():
        return 0
    groups = runtime.get_instance().uploaded_file_mgr.get_stats().values()
    return sum(stat.byte_length for group in groups for stat in group if isinstance(stat, CacheStat))


def as_stranger(scope: Scope) -> Scope:
    """The same connection without cookies and without the id of an earlier session: Streamlit opens a new one."""
    kept = [
        (name, value) for name, value in scope["headers"] if name.lower() not in (b"cookie", b"sec-websocket-protocol")
    ]
    offered = Headers(scope=scope).get("sec-websocket-protocol", "")
    protocols = [part.strip() for part in offered.split(",") if part.strip()][:2]  # the third is an earlier session
    if protocols:
        kept.append((b"sec-websocket-protocol", ", ".join(protocols).encode("latin-1")))
    return {**scope, "headers": kept, "subprotocols": protocols}


def _shells() -> list[str]:
    """The addresses of the empty page."""
    return ["/", *(f"/{name}" for name in pages.names())]


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
    headers = {"Cache-Control": "no-store"}
    await JSONResponse({"problem": reason}, status, headers)(scope, receive, send)
