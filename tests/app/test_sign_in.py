"""Where people sign in: forged, expired and foreign cookies get nothing, and a connection ends with its sign-in."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.testing.v1 import AppTest
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from app import endpoints
from app.access import people
from app.access.people import Person, name_of, role_of
from app.access.rules import Rules, rules
from app.server import routes, sign_in
from app.server.sign_in import EndingConnection
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Store
from tests.app.pages import open_page
from tests.app.samples import DIGITS, store_experiment
from tests.support import event_loop
from tests.support.signing_in import MEMBER, OTHER, PEOPLE, ROLES, SECRET, SETTINGS, URL, claims, cookie, people_sign_in

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
RULES = rules(SETTINGS | ROLES)
FEED = f"{endpoints.FEED}?runs=1"
GUARDED = (
    FEED,
    endpoints.OVERVIEW,
    f"{endpoints.ROOM}?code=ABCDEFGH",
    "/media/figure.png",
    "/_stcore/upload_file/a/b",
    "/_stcore/metrics",
    "/other",
)
PUBLIC = ("/", "/library", "/static/js/index.js", "/_stcore/health", "/auth/login", "/oauth2callback", endpoints.PLOTLY)
LATER = int(time.time()) + 10**6

INVALID: dict[str, dict[str, str]] = {
    "none": {},
    "not signed": {"_streamlit_user": '{"email": "root@lab.test"}'},
    "signed with another secret": cookie(claims("root@lab.test"), secret="another secret of thirty-two characters"),
    "signed for another cookie": cookie(claims("root@lab.test"), name="_streamlit_user_tokens"),
    "changed after it was signed": {name: f"x{value[1:]}" for name, value in cookie(claims("root@lab.test")).items()},
    "expired": cookie(claims("root@lab.test", iat=1, exp=int(time.time()) - 1)),
    "without an end": cookie(claims("root@lab.test", exp=None)),
    "with an end that is no number": cookie(claims("root@lab.test", exp="never")),
    "with an end that is true": cookie(claims("root@lab.test", exp=True)),
    "of another address": cookie(claims("root@lab.test", origin="https://elsewhere.test")),
    "of another provider": cookie(claims("root@lab.test", iss="https://elsewhere.test")),
    "of another app": cookie(claims("root@lab.test", aud="another")),
    "of other apps": cookie(claims("root@lab.test", aud=["another", "fedscape2"])),
    "signed out": cookie(claims("root@lab.test", is_logged_in=False)),
    "of nobody": cookie(claims(email=None, sub=None)),  # type: ignore[arg-type]
}


@pytest.fixture
def client(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Our routes, and pages of Streamlit that answer "fine"."""
    people_sign_in(monkeypatch)
    training = {"rounds": 1, "local_steps": 1}
    store_experiment(empty_store, DIGITS | {"algorithms": ["fedavg"], "seeds": [0], "training": training})

    def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse("fine")

    async def stream(websocket: WebSocket) -> None:
        await websocket.accept(subprotocol="streamlit")
        protocols = websocket.headers.get("sec-websocket-protocol", "")
        await websocket.send_text(f"{protocols} {sorted(websocket.cookies)}")
        with suppress(WebSocketDisconnect):
            await websocket.receive_bytes()

    everything = [*routes.build(empty_store), WebSocketRoute("/_stcore/stream", stream)]
    everything.append(Route("/{path:path}", answer, methods=["GET", "PUT", "DELETE", "POST"]))
    app = Starlette(routes=everything, middleware=sign_in.middleware(RULES))
    with TestClient(app, URL) as client:
        yield client


def sent(client: TestClient, path: str, cookies: dict[str, str], method: str = "GET") -> Any:
    return client.request(method, path, headers={"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())})


def test_an_invalid_cookie_gets_nothing(client: TestClient) -> None:
    for kind, cookies in INVALID.items():
        for path in GUARDED:
            refused = sent(client, path, cookies)
            assert refused.status_code == 401 and set(refused.json()) == {"problem"}, (kind, path)
            assert refused.headers["Cache-Control"] == "no-store", (kind, path)


def test_what_the_button_to_sign_in_needs_is_public(client: TestClient) -> None:
    for path in PUBLIC:
        assert sent(client, path, {}).status_code == 200, path


def test_everyone_who_signed_in_reads_the_feed(client: TestClient) -> None:
    for role, person in PEOPLE.items():
        answer = sent(client, FEED, cookie(claims(person.name)))
        assert answer.status_code == 200 and [run["id"] for run in answer.json()["runs"]] == [1], role


def test_a_long_cookie_in_pieces_is_read(client: TestClient) -> None:
    parts = {"_streamlit_user": "chunks-2"}
    text = json.dumps(claims(groups=["g" * 40 for _ in range(200)]))
    parts |= {f"_streamlit_user_{i + 1}": part for i, part in enumerate((text[:3000], text[3000:]))}
    signed = {name: create_signed_value(SECRET, name, value).decode() for name, value in parts.items()}
    assert sent(client, endpoints.OVERVIEW, signed).status_code == 200
    signed.pop("_streamlit_user_2")
    assert sent(client, endpoints.OVERVIEW, signed).status_code == 401


def test_the_feed_offers_actions_on_ones_own_runs_only(client: TestClient, empty_store: Store) -> None:
    run = new_run(parse_experiment(DIGITS | {"algorithms": ["fedavg"], "seeds": [0]}).runs()[0])
    empty_store.experiments.create("mine", {}, [run], owner=MEMBER.name)
    for person, offered in ((MEMBER, ["pause", "cancel"]), (OTHER, []), (PEOPLE["visitor"], [])):
        (shown,) = sent(client, f"{endpoints.FEED}?runs=2", cookie(claims(person.name))).json()["runs"]
        assert shown["actions"] == offered


def test_visitors_upload_nothing(client: TestClient) -> None:
    path = "/_stcore/upload_file/session/file"
    for method in ("PUT", "DELETE", "POST"):
        assert sent(client, path, cookie(claims(PEOPLE["visitor"].name)), method).status_code == 403, method
        assert sent(client, path, cookie(claims(MEMBER.name)), method).status_code == 200, method


def test_uploads_wait_while_the_memory_for_them_is_full(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    path, member = "/_stcore/upload_file/session/file", cookie(claims(MEMBER.name))
    monkeypatch.setattr(sign_in, "held_bytes", lambda: sign_in.MAX_HELD)
    refused = sent(client, path, member, "PUT")
    assert refused.status_code == 503 and "memory for uploads is full" in refused.json()["problem"]
    assert sent(client, path, member, "DELETE").status_code == 200


def test_held_uploads_are_those_of_open_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sign_in.held_bytes() == 0
    held = MemoryUploadedFileManager("/upload")
    held.add_file("session", UploadedFileRec("file", "a.csv", "text/csv", b"12345"))
    monkeypatch.setattr(runtime, "exists", lambda: True)
    monkeypatch.setattr(runtime, "get_instance", lambda: SimpleNamespace(uploaded_file_mgr=held))
    assert sign_in.held_bytes() == 5
    held.remove_session_files("session")
    assert sign_in.held_bytes() == 0


def test_a_read_only_app_takes_no_upload_and_needs_no_cookie(empty_store: Store) -> None:
    def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse("fine")

    everything = [Route("/{path:path}", answer, methods=["GET", "PUT"])]
    app = Starlette(routes=everything, middleware=sign_in.middleware(rules({"FEDSCAPE_READ_ONLY": "1"})))
    with TestClient(app) as client:
        assert client.get("/live/overview").status_code == 200
        assert client.put("/_stcore/upload_file/a/b").status_code == 403


# The connection of a page.


def connected(client: TestClient, cookies: dict[str, str], protocols: list[str]) -> str:
    header = {"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())}
    with client.websocket_connect("/_stcore/stream", subprotocols=protocols, headers=header) as socket:
        return str(socket.receive_text())


def test_a_stranger_connects_without_cookies_and_without_an_earlier_session(client: TestClient) -> None:
    for kind, cookies in INVALID.items():
        assert connected(client, cookies, ["streamlit", "xsrf", "session-of-ada"]) == "streamlit, xsrf []", kind


def test_who_signed_in_keeps_cookie_and_session(client: TestClient) -> None:
    answer = connected(client, cookie(claims()), ["streamlit", "xsrf", "session"])
    assert answer == "streamlit, xsrf, session ['_streamlit_user']"


def test_a_connection_ends_with_its_sign_in(client: TestClient) -> None:
    soon = cookie(claims(exp=time.time() + 0.3))
    header = {"Cookie": "; ".join(f"{k}={v}" for k, v in soon.items())}
    with client.websocket_connect("/_stcore/stream", subprotocols=["streamlit"], headers=header) as socket:
        socket.receive_text()
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_text()
    assert ended.value.code == 1008


def test_nothing_is_sent_over_a_connection_that_has_ended() -> None:
    async def silence() -> Any:
        await asyncio.sleep(60)

    async def record(message: Any) -> None:
        sent_messages.append(message["type"])

    async def scenario() -> None:
        connection = EndingConnection(silence, record, time.time() - 1)
        assert (await connection.receive())["type"] == "websocket.disconnect"
        assert (await connection.receive())["type"] == "websocket.disconnect"
        await connection.send({"type": "websocket.send", "text": "late"})

    sent_messages: list[str] = []
    event_loop.run(scenario())
    assert sent_messages == ["websocket.close"]


# The page to return to after signing in.

WANTED = "/compare?experiment=3&model=global"
FOREIGN = [
    "",
    "https://elsewhere.test/compare",
    "//elsewhere.test/compare",
    f"{URL}@elsewhere.test/compare",
    f"{URL}.elsewhere.test/compare",
    "/\\elsewhere.test",
    "javascript:alert(1)",
    "http://[",
]


@pytest.fixture
def provider_client() -> Iterator[TestClient]:
    """Streamlit's routes for signing in, without a provider."""

    def login(request: Request) -> RedirectResponse:
        return RedirectResponse("https://provider.test/authorize", 302)

    def callback(request: Request) -> RedirectResponse:
        return RedirectResponse("/", 302)

    app = Starlette(
        routes=[Route("/auth/login", login), Route("/oauth2callback", callback)],
        middleware=sign_in.middleware(RULES),
    )
    with TestClient(app, URL, follow_redirects=False) as client:
        yield client


def returned_to(client: TestClient, referer: str) -> str:
    login = client.get("/auth/login", headers={"Referer": referer})
    assert login.headers["Location"] == "https://provider.test/authorize"
    return str(client.get("/oauth2callback").headers["Location"])


def test_the_browser_returns_to_the_page_with_its_query_once(provider_client: TestClient) -> None:
    assert returned_to(provider_client, f"{URL}{WANTED}") == WANTED
    assert provider_client.get("/oauth2callback").headers["Location"] == "/"


def test_the_latest_page_counts(provider_client: TestClient) -> None:
    provider_client.get("/auth/login", headers={"Referer": f"{URL}{WANTED}"})
    assert returned_to(provider_client, f"{URL}/library") == "/library"
    provider_client.get("/auth/login", headers={"Referer": f"{URL}{WANTED}"})
    assert returned_to(provider_client, "") == "/"


def test_a_page_that_is_not_ours_is_never_returned_to(provider_client: TestClient) -> None:
    for referer in (*FOREIGN, f"{URL}/auth/logout", f"{URL}/live?runs={'1' * 4000}"):
        assert returned_to(provider_client, referer) == "/", referer


def test_a_forged_cookie_leads_to_the_start_page(provider_client: TestClient) -> None:
    for forged in (*FOREIGN, f"{URL}{WANTED}", "/auth/logout", "/compare/../auth/logout"):
        answer = provider_client.get("/oauth2callback", headers={"Cookie": f"{sign_in.RETURN}={forged}"})
        assert answer.headers["Location"] == "/", forged


def test_the_query_of_a_forged_cookie_cannot_add_headers() -> None:
    assert sign_in.own_page("/live?name=a\r\nb; Path=/") == "/live?name=ab%3B+Path%3D%2F"
    assert sign_in.own_page("/live?name=Zürich") == "/live?name=Z%C3%BCrich"


def test_the_cookie_is_sent_over_tls_only_where_the_app_is() -> None:
    for url, is_secure in ((URL, False), ("https://lab.test", True)):
        guard = sign_in.ReturnToPage(Starlette(), url)
        assert ("; Secure" in guard._cookie("/", 1)) is is_secure


# Who somebody is.


@pytest.mark.parametrize(
    ("changes", "role"),
    [
        ({}, "member"),
        ({"email": "ROOT@lab.test"}, "admin"),
        ({"email": "root@lab.test", "email_verified": False}, "visitor"),
        ({"email": "root@lab.test", "email_verified": None}, "admin"),
        ({"email": "new@lab.test"}, "visitor"),
        ({"email": "new@lab.test", "groups": ["students"]}, "member"),
        ({"email": "new@lab.test", "groups": ["students", "STAFF"]}, "admin"),
        ({"email": "new@lab.test", "groups": "staff"}, "admin"),
        ({"email": "new@lab.test", "groups": ["root@lab.test"]}, "visitor"),
        ({"email": "new@lab.test", "groups": {"staff": True}}, "visitor"),
        ({"email": "new@lab.test", "roles": ["staff"]}, "visitor"),
        ({"email": None, "sub": "root@lab.test"}, "visitor"),
    ],
    ids=str,
)
def test_a_role_follows_from_address_and_groups(changes: dict[str, Any], role: str) -> None:
    person = people.signed_in(claims(**changes), RULES)
    assert person is not None and person.role == role


def test_without_a_list_of_members_everyone_who_signs_in_is_one() -> None:
    open_to_all = rules(SETTINGS | {"FEDSCAPE_ADMINS": "root@lab.test"})
    assert role_of({"new@lab.test"}, open_to_all) == "member" and role_of({"root@lab.test"}, open_to_all) == "admin"


def test_the_claim_with_the_groups_can_have_another_name() -> None:
    found = people.signed_in(
        claims("x@lab.test", roles=["staff"]), rules(SETTINGS | ROLES | {"FEDSCAPE_GROUPS_CLAIM": "roles"})
    )
    assert found is not None and found.role == "admin"


def test_an_unverified_address_is_nobodys_name() -> None:
    assert name_of(claims("ada@lab.test", email_verified=False)) == "id id of ada@lab.test"
    assert name_of(claims("Ada@Lab.test")) == "ada@lab.test"


def test_a_session_can_be_longer_than_the_token() -> None:
    longer: Rules = rules(SETTINGS | {"FEDSCAPE_SESSION_HOURS": "8"})
    now = int(time.time())
    assert people.signed_in(claims(iat=now - 7 * 3600, exp=now - 1), longer) == Person(MEMBER.name, "member")
    assert people.signed_in(claims(iat=now - 9 * 3600, exp=LATER), longer) is None
    assert people.signed_in(claims(iat=None, exp=LATER), longer) is None


# The pages.


def test_a_page_of_somebody_who_has_to_sign_in_shows_a_button_and_nothing_else(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    for user in ({}, claims(exp=1) | {"origin": None}, {"is_logged_in": False}):
        page = AppTest.from_file(str(MAIN), default_timeout=60)
        page.user = user
        page.run()
        assert not page.exception and [button.label for button in page.button] == ["Sign in"]
        assert [title.value for title in page.title] == ["Fedscape"]


def test_a_member_sees_who_they_are_and_can_sign_out(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people_sign_in(monkeypatch)
    page = AppTest.from_file(str(MAIN), default_timeout=60)
    page.user = claims()
    page.run()
    assert not page.exception and page.button(key="sign_out").label == "Sign out"


def test_without_sign_in_nobody_is_named(read_store: Store) -> None:
    page = open_page("library")
    assert not [button for button in page.button if button.key in ("sign_in", "sign_out")]


def test_middleware_is_added_only_where_people_differ() -> None:
    assert [one.cls for one in sign_in.middleware(RULES)] == [sign_in.ReturnToPage, sign_in.SignInGuard]
    assert [one.cls for one in sign_in.middleware(rules({"FEDSCAPE_READ_ONLY": "1"}))] == [sign_in.SignInGuard]
    assert sign_in.middleware(rules({})) == []
