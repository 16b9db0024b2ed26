"""The app behind the nginx of docs/how-to/run-on-a-server.md, with TLS, a password and WebSockets."""

import ssl
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest

from benchmarks.reader import OpenPage, Times, opened
from tests.browser.conftest import ROOT, Server
from tests.support import event_loop, proxies
from tests.support.ports import free_ports

GUIDE = ROOT / "docs" / "how-to" / "run-on-a-server.md"

pytestmark = pytest.mark.nginx


@dataclass(frozen=True)
class Proxy:
    """The address that it listens on, and what a browser needs to be let in."""

    url: str
    certificate: proxies.Certificate
    allowed: dict[str, str]

    @property
    def trust(self) -> ssl.SSLContext:
        return self.certificate.trust


@pytest.fixture(scope="module")
def proxy(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("nginx")
    certificate, users = proxies.new_certificate(folder), folder / "fedscape.users"
    users.write_text("alice:{PLAIN}secret\n")
    users.chmod(0o644)
    (site,) = proxies.in_guide(GUIDE, "nginx")
    site = proxies.changed(site, {"/etc/nginx/fedscape.users": str(users), "http://127.0.0.1:8501": server.url})
    with proxies.nginx(folder, *free_ports(1), certificate, site) as url:
        yield Proxy(url, certificate, {"Authorization": f"Basic {b64encode(b'alice:secret').decode()}"})


def test_a_page_opens_through_the_proxy_and_is_encrypted(proxy: Proxy) -> None:
    async def widgets() -> list[str]:
        async with httpx2.AsyncClient(base_url=proxy.url, verify=proxy.trust, headers=proxy.allowed) as client:
            page: OpenPage = await opened(client, proxy.url, "setup", {}, Times(), proxy.trust, proxy.allowed)
            found = [*page.widgets]
            await page.close()
            return found

    assert "queue" in event_loop.run(widgets())


def test_the_proxy_asks_for_a_password(proxy: Proxy) -> None:
    assert httpx2.get(proxy.url, verify=proxy.trust).status_code == 401


def test_a_page_of_another_origin_is_refused_behind_the_proxy(proxy: Proxy) -> None:
    headers = proxy.allowed | {"Origin": "https://elsewhere.example"}
    assert httpx2.get(proxy.url, verify=proxy.trust, headers=headers).status_code == 403
