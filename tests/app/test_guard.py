"""The guard of the web server: it refuses foreign origins and closed endpoints, and sets security headers."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit.proto.BackMsg_pb2 import BackMsg

from app import pages
from app.server import guard, index_page, routes
from app.server.guard import FIXED, Guard, is_own_origin
from storage import Store

HERE = "http://127.0.0.1:8501"
STREAM = "/_stcore/stream"


def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse("fine")


async def stream(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("fine")
    await websocket.close()


@pytest.fixture
def client() -> Iterator[TestClient]:
    everything = [WebSocketRoute(STREAM, stream), Route("/{path:path}", answer, methods=["GET", "PUT", "OPTIONS"])]
    with TestClient(Starlette(routes=everything, middleware=[Middleware(Guard, scripts=["one()"])]), HERE) as client:
        yield client


def test_every_response_has_the_headers(client: TestClient) -> None:
    for path in ("/", "/live/feed", "/_stcore/health", "/_stcore/metrics"):
        headers = client.get(path).headers
        assert {name: headers[name] for name in FIXED} == FIXED
        assert headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_the_policy_names_no_other_host(client: TestClient) -> None:
    rules = dict(rule.split(" ", 1) for rule in client.get("/").headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == "'self'" and rules["img-src"] == "'self' data: blob:"
    assert rules["connect-src"] == "'self' ws://127.0.0.1:8501 wss://127.0.0.1:8501"
    assert not [rule for rule in rules.values() if "*" in rule or "https:" in rule or "http:" in rule]
    assert "unsafe-inline" not in rules["script-src"]


@pytest.mark.parametrize(
    "path", ["metrics", "agent/openapi.json", "agent/mcp", "script-health-check", "health/x", "streams", ""]
)
def test_streamlits_endpoints_that_no_page_uses_are_closed(client: TestClient, path: str) -> None:
    assert client.get(f"/_stcore/{path}").status_code == 404


@pytest.mark.parametrize("path", ["health", "host-config", "upload_file/a/b", "bidi-components/a/b.js"])
def test_streamlits_endpoints_that_pages_use_are_open(client: TestClient, path: str) -> None:
    assert client.get(f"/_stcore/{path}").status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:9000", "http://localhost:8501", "http://127.0.0.1", "http://evil.example:8501", "null"]
)
def test_another_origin_can_neither_request_nor_open_the_stream(client: TestClient, origin: str) -> None:
    for method in ("GET", "PUT", "OPTIONS"):
        assert client.request(method, "/", headers={"Origin": origin}).status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(STREAM, headers={"Origin": origin}):
        pass


@pytest.mark.parametrize("headers", [{}, {"Origin": HERE}])
def test_pages_of_this_server_and_programs_can_open_the_stream(client: TestClient, headers: dict[str, str]) -> None:
    with client.websocket_connect(STREAM, headers=headers | {"Host": "127.0.0.1:8501"}) as socket:
        assert socket.receive_text() == "fine"
    assert client.get("/", headers=headers).status_code == 200


def test_only_messages_that_pages_send_reach_streamlit() -> None:
    arrived = []

    async def collect(websocket: WebSocket) -> None:
        await websocket.accept()
        arrived.extend([BackMsg.FromString(data).WhichOneof("type") async for data in websocket.iter_bytes()])

    rerun = BackMsg()
    rerun.rerun_script.query_string = "a=1"
    app = Starlette(routes=[WebSocketRoute(STREAM, collect)], middleware=[Middleware(Guard, scripts=[])])
    with TestClient(app, HERE) as own, own.websocket_connect(STREAM, headers={"Host": "127.0.0.1:8501"}) as socket:
        for message in (
            BackMsg(clear_cache=True),
            BackMsg(backend_operation_request={"install_skills": {}}),
            BackMsg(load_git_info=True),
            BackMsg(set_run_on_save=True),
            BackMsg(),
        ):
            socket.send_bytes(message.SerializeToString())
        socket.send_bytes(b"\xff\xff")
        socket.send_text("hello")
        socket.send_bytes(rerun.SerializeToString())
        socket.send_bytes(BackMsg(stop_script=True).SerializeToString())
    assert arrived == ["rerun_script", "stop_script"]


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("https://lab.example", "lab.example", True),
        ("https://lab.example", "lab.example:443", True),
        ("http://lab.example", "lab.example:80", True),
        ("https://lab.example:8443", "lab.example", False),
        ("http://[::1]:8501", "[::1]:8501", True),
        ("http://[::1]:8502", "[::1]:8501", False),
        ("http://LAB.example:1", "lab.example:1", True),
        ("http://lab.example:x", "lab.example", False),
        ("", "", False),
    ],
)
def test_an_origin_is_compared_by_name_and_port(origin: str, host: str, is_own: bool) -> None:
    assert is_own_origin(origin, host) is is_own


def test_the_policy_allows_the_inline_scripts_of_every_page(read_store: Store) -> None:
    allowed = index_page.inline_scripts()
    with TestClient(Starlette(routes=routes.build(read_store))) as own:
        for path in ("/", *(f"/{name}" for name in pages.names())):
            found = guard.inline_scripts(own.get(path).text)
            assert len(found) > 1 and set(found) <= set(allowed)
