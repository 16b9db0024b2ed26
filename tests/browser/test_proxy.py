"""The app behind the nginx of docs/how-to/run-on-a-server.md, with TLS, a password and WebSockets."""

import re
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from benchmarks.reader import OpenPage, Times, opened
from benchmarks.running import free_port
from tests.browser.conftest import ROOT, START_S, Server
from tests.support import event_loop
from tests.support.nginx import nginx_program

GUIDE = ROOT / "docs" / "how-to" / "run-on-a-server.md"
FRAME = """
daemon off;
error_log {folder}/error.log;
pid {folder}/pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    {site}
}}
"""

pytestmark = pytest.mark.nginx


@dataclass(frozen=True)
class Proxy:
    """The address that it listens on, and what a browser needs to be let in."""

    url: str
    certificate: Path
    allowed: dict[str, str]

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))


@pytest.fixture(scope="module")
def proxy(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    certificate, key, users = folder / "fedscape.pem", folder / "fedscape.key", folder / "fedscape.users"
    new_certificate = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext"
    subprocess.run(
        [*new_certificate.split(), "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    users.write_text("alice:{PLAIN}secret\n")
    users.chmod(0o644)
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/fedscape.pem": str(certificate),
        "/etc/ssl/fedscape.key": str(key),
        "/etc/nginx/fedscape.users": str(users),
        "http://127.0.0.1:8501": server.url,
    }
    site = written()
    for text, own in changes.items():
        assert text in site
        site = site.replace(text, own)
    folder.joinpath("nginx.conf").write_text("user root;" + FRAME.format(folder=folder, site=site))
    program = nginx_program()
    assert program
    process = subprocess.Popen([program, "-p", folder, "-c", "nginx.conf"], stderr=subprocess.DEVNULL)
    found = Proxy(
        f"https://127.0.0.1:{port}", certificate, {"Authorization": f"Basic {b64encode(b'alice:secret').decode()}"}
    )
    _wait_until_up(found, process)
    yield found
    process.terminate()
    process.wait()


def written() -> str:
    found = re.search(r"```nginx\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def _wait_until_up(proxy: Proxy, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(httpx2.TransportError):
            httpx2.get(proxy.url, verify=proxy.trust)
            return
        time.sleep(0.1)
    pytest.fail("nginx did not come up")


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
