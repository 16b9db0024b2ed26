"""A reader of the app without a browser: opens pages and presses controls in Streamlit's protocol."""

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Delta_pb2 import Delta
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.web.server.starlette.starlette_server_config import XSRF_COOKIE_NAME
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

from app import endpoints

PATIENCE_S = 120.0
LOST_S = 2.0
OF_A_PAGE, OF_A_FRAGMENT = ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
_KEY = re.compile(r"\$\$ID-[0-9a-f]+-(.+)")


@dataclass(frozen=True)
class Widget:
    """A control as the server drew it; ``options`` are the titles of a row of buttons or of a slider."""

    id: str
    kind: str
    fragment: str
    options: tuple[str, ...] = ()
    is_enabled: bool = True


@dataclass
class Times:
    """Seconds of each action by name, and what went wrong."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, action: str) -> Iterator[None]:
        """Adds a time, or an error if there is no response."""
        started = time.perf_counter()
        try:
            yield
        except (TimeoutError, ConnectionClosed, OSError, httpx2.HTTPError, LookupError) as error:
            self.errors.append(f"{action}: {error!r}")
        else:
            self.seconds.setdefault(action, []).append(time.perf_counter() - started)


class OpenPage:
    """A page with its connection: keeps the widgets that the server draws, and its timers and polls running."""

    def __init__(self, url: str, name: str, query: dict[str, str], socket: ClientConnection, errors: list[str]) -> None:
        self.widgets: dict[str, Widget] = {}
        self.redirect = ""
        """The address of the latest redirect to sign in."""
        self._url, self._name, self._query = url, name, query
        self._socket, self._errors = socket, errors
        self._values: dict[str, WidgetState] = {}
        self._waiting: tuple[int, asyncio.Future[None]] | None = None  # for a run that ends like this
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._tasks = [asyncio.create_task(self._receive())]

    @property
    def query(self) -> dict[str, str]:
        """The address's choices, as the server set them last."""
        return self._query

    async def run(self, fragment: str = "") -> None:
        """Runs the page, or a fragment of it, to its end. Raises TimeoutError."""
        if not fragment:
            self.widgets = {}
            self._stop_timers()
        self._waiting = (OF_A_FRAGMENT if fragment else OF_A_PAGE, asyncio.get_running_loop().create_future())
        await self._send(fragment)
        await asyncio.wait_for(self._waiting[1], PATIENCE_S)

    async def press(self, key: str, choose: Callable[[Widget], str]) -> None:
        """Presses the control with the ``key``; ``choose`` returns one of its options."""
        widget = self.widgets[key]
        state = WidgetState(id=widget.id)
        if widget.kind == "button":
            state.trigger_value = True
        elif widget.kind == "checkbox":
            state.bool_value = choose(widget) == "true"
        else:
            state.string_array_value.data.append(choose(widget))
        self._values[widget.id] = state
        try:
            await self.run(widget.fragment)
        finally:
            if widget.kind == "button":
                del self._values[widget.id]

    def poll(self, client: httpx2.AsyncClient, path: str, query: Callable[[Any], dict[str, str]]) -> None:
        """Requests an address as often as its answers say. ``query`` makes the next one from the last answer."""
        self._tasks.append(asyncio.create_task(self._poll(client, path, query)))

    async def close(self) -> None:
        for task in (*self._tasks, *self._timers.values()):
            task.cancel()
        await self._socket.close()

    async def _send(self, fragment: str = "") -> None:
        message = BackMsg()
        state = message.rerun_script
        state.page_name, state.query_string, state.fragment_id = self._name, urlencode(self._query), fragment
        state.context_info.url, state.context_info.timezone = f"{self._url}/{self._name}", "UTC"
        state.context_info.color_scheme = "light"
        state.widget_states.widgets.extend(self._values.values())
        await self._socket.send(message.SerializeToString())

    async def _receive(self) -> None:
        with suppress(ConnectionClosed):
            async for data in self._socket:
                self._on(ForwardMsg.FromString(data if isinstance(data, bytes) else data.encode()))
        if self._waiting and not self._waiting[1].done():
            self._waiting[1].set_exception(ConnectionError(f"closed by the server: {self._socket.close_reason}"))

    def _on(self, message: ForwardMsg) -> None:
        match message.WhichOneof("type"):
            case "delta":
                self._keep(message.delta)
            case "auto_rerun":
                timer = message.auto_rerun
                if old := self._timers.pop(timer.fragment_id, None):
                    old.cancel()
                self._timers[timer.fragment_id] = asyncio.create_task(self._repeat(timer.fragment_id, timer.interval))
            case "auth_redirect":
                self.redirect = message.auth_redirect.url
            case "page_info_changed":
                self._query = dict(httpx2.QueryParams(message.page_info_changed.query_string))
            case "script_finished" if self._waiting:
                wanted, done = self._waiting
                if message.script_finished == wanted and not done.done():
                    done.set_result(None)

    def _keep(self, delta: Delta) -> None:
        if delta.WhichOneof("type") != "new_element":
            return
        kind = delta.new_element.WhichOneof("type") or ""
        element: Any = getattr(delta.new_element, kind, None)
        if kind == "exception":
            self._errors.append(f"{element.type}: {element.message}")
        found = _KEY.fullmatch(getattr(element, "id", ""))
        if found:
            options = tuple(getattr(one, "content", one) for one in getattr(element, "options", ()))
            is_enabled = not getattr(element, "disabled", False)
            self.widgets[found[1]] = Widget(element.id, kind, delta.fragment_id, options, is_enabled)

    async def _repeat(self, fragment: str, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self._send(fragment)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers = {}

    async def _poll(self, client: httpx2.AsyncClient, path: str, query: Callable[[Any], dict[str, str]]) -> None:
        answer: Any = None
        while True:
            try:
                response = await client.get(path, params=query(answer))
                response.raise_for_status()
                answer = response.json()
            except httpx2.HTTPError as error:
                self._errors.append(f"{path}: {error!r}")
            await asyncio.sleep(answer["wait_ms"] / 1000 if answer else LOST_S)


async def opened(
    client: httpx2.AsyncClient,
    url: str,
    name: str,
    query: dict[str, str],
    times: Times,
    trust: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
    port: int | None = None,
) -> OpenPage:
    """Loads the page as for a first visit with cached files: its HTML, a WebSocket, one run. The strip polls.

    The WebSocket has the cookies of ``client``. ``port`` is that of the web server, if not the one of ``url``.
    """
    with times.timed(f"open {name or 'learn'}"):
        (await client.get(f"/{name}", params=query)).raise_for_status()
        stream = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        token = client.cookies.get(XSRF_COOKIE_NAME)  # Streamlit reads who is signed in only with it
        socket = await connect(
            stream,
            subprotocols=[Subprotocol("streamlit"), *([Subprotocol(token)] if token else [])],
            origin=Origin(url),
            max_size=None,
            ssl=trust,
            additional_headers={**(headers or {}), **({"Cookie": cookies} if cookies else {})},
            **({"port": port} if port else {}),
        )
        page = OpenPage(url, name, query, socket, times.errors)
        await page.run()
        page.poll(client, endpoints.OVERVIEW, lambda _: {"watched": "", "seen": "0"})
        return page
    raise ConnectionError(times.errors[-1])
