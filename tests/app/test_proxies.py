"""The configurations of nginx and Caddy in docs/how-to/share-with-others.md, run with small web servers behind them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from tests.support import named_servers, proxies
from tests.support.named_servers import STREAM, NamedServer
from tests.support.ports import free_ports
from tests.support.proxies import Certificate

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "share-with-others.md"
PROGRAMS = [pytest.param("nginx", marks=pytest.mark.nginx), pytest.param("caddy", marks=pytest.mark.caddy)]
PATIENCE_S = 60.0
READER = "fedscape_reader"
APP_COOKIES = {"_streamlit_user", "_streamlit_xsrf"}


@dataclass(frozen=True)
class Proxy:
    """One with the web servers behind it."""

    url: str
    certificate: Certificate
    servers: dict[int, NamedServer]

    def browser(self) -> httpx2.Client:
        """With no cookies yet."""
        return httpx2.Client(base_url=self.url, verify=self.certificate.trust, timeout=PATIENCE_S)

    def stream(self, browser: httpx2.Client) -> int:
        """The port of the web server that the browser's WebSocket reaches."""
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        address = f"{self.url.replace('https', 'wss', 1)}{STREAM}"
        with connect(address, ssl=self.certificate.trust, additional_headers={"Cookie": cookies}) as socket:
            return int(socket.recv(PATIENCE_S))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return proxies.new_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(params=PROGRAMS)
def one(request: pytest.FixtureRequest, tmp_path: Path, certificate: Certificate) -> Iterator[Proxy]:
    yield from behind(request.param, 1, tmp_path, certificate)


@pytest.fixture(params=PROGRAMS)
def two(request: pytest.FixtureRequest, tmp_path: Path, certificate: Certificate) -> Iterator[Proxy]:
    yield from behind(request.param, 2, tmp_path, certificate)


def behind(program: str, number: int, folder: Path, certificate: Certificate) -> Iterator[Proxy]:
    port, *ports = free_ports(1 + number)
    site = proxies.in_guide(GUIDE, program)[number - 1]
    site = proxies.changed(site, {str(8501 + i): str(own) for i, own in enumerate(ports)})
    run = {"nginx": proxies.nginx, "caddy": proxies.caddy}[program]
    with named_servers.running(ports) as servers, run(folder, port, certificate, site) as url:
        yield Proxy(url, certificate, servers)


def server_of(browser: httpx2.Client) -> int:
    response = browser.get("/")
    assert response.status_code == 200
    return int(response.text.split()[0])


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_requests_and_websockets_reach_one_web_server_over_tls(one: Proxy) -> None:
    (port,) = one.servers
    with one.browser() as browser:
        assert browser.get("/").text.split() == [str(port), one.url.removeprefix("https://")]
        assert one.stream(browser) == port


def test_cookies_of_the_app_are_sent_over_tls_only(one: Proxy) -> None:
    with one.browser() as browser:
        found = {cookie.split("=")[0]: cookie for cookie in browser.get("/").headers.get_list("Set-Cookie")}
    assert found.keys() == APP_COOKIES
    assert all("; secure" in cookie.lower() for cookie in found.values())
    assert "; httponly" in found["_streamlit_user"].lower()


def test_each_reader_stays_on_one_of_two_web_servers_and_both_are_used(two: Proxy) -> None:
    used = set()
    for _ in range(100):
        with two.browser() as browser:
            server = server_of(browser)
            used.add(server)
            assert [server_of(browser) for _ in range(5)] == [server] * 5
            assert two.stream(browser) == server
        if len(used) == 2:
            break
    assert used == two.servers.keys()


def test_cookies_behind_two_web_servers_are_sent_over_tls_only(two: Proxy) -> None:
    with two.browser() as browser:
        found = {cookie.split("=")[0]: cookie.lower() for cookie in browser.get("/").headers.get_list("Set-Cookie")}
    assert found.keys() == {READER, *APP_COOKIES}
    assert all("; secure" in cookie for cookie in found.values())
    assert "; httponly" in found[READER]


@pytest.mark.slow
def test_a_reader_of_a_web_server_that_fails_stays_on_the_other_one_when_it_is_back(two: Proxy) -> None:
    with two.browser() as browser:
        failed = server_of(browser)
        (other,) = two.servers.keys() - {failed}
        two.servers[failed].stop()
        assert server_of(browser) == other
        assert two.stream(browser) == other
        two.servers[failed].start()

        def is_used_again() -> bool:
            with two.browser() as new:
                return server_of(new) == failed

        eventually(is_used_again)
        assert [server_of(browser) for _ in range(5)] == [other] * 5
        assert two.stream(browser) == other


def test_an_unknown_web_server_in_the_cookie_is_replaced(two: Proxy) -> None:
    with two.browser() as browser:
        browser.cookies.set(READER, "elsewhere", domain="127.0.0.1", path="/")
        server = server_of(browser)
        assert browser.cookies[READER] != "elsewhere"
        assert [server_of(browser) for _ in range(5)] == [server] * 5
