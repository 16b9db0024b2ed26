"""nginx and Caddy of this machine, if there are any: they are needed only to test the configurations in the guides."""

import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx2

FOLDERS = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
OLDEST_CADDY = (2, 8)
START_S, STOP_S = 60.0, 30.0
NGINX = """
user root;
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
CADDY = """
{{
    admin off
    auto_https off
    persist_config off
    servers {{
        protocols h1
    }}
}}
{site}
"""


@dataclass(frozen=True)
class Certificate:
    """A self-signed one for 127.0.0.1."""

    file: Path
    key: Path

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file))


def nginx_program() -> str | None:
    """Its path, or None. Debian's folder is not in the PATH of users other than root."""
    return shutil.which("nginx") or shutil.which("nginx", path=FOLDERS)


@cache
def caddy_program() -> str | None:
    """The path of Caddy from 2.8 on: CADDY, or the one on the PATH; else None."""
    program = shutil.which(os.environ.get("CADDY") or "caddy")
    if program is None:
        return None
    version = subprocess.run([program, "version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return program if found and (int(found[1]), int(found[2])) >= OLDEST_CADDY else None


def new_certificate(folder: Path) -> Certificate:
    made = Certificate(folder / "fedscape.pem", folder / "fedscape.key")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext"
    subprocess.run(
        [*command.split(), "subjectAltName=IP:127.0.0.1", "-keyout", made.key, "-out", made.file],
        check=True,
        capture_output=True,
    )
    return made


def in_guide(guide: Path, program: str) -> list[str]:
    """The configurations of ``nginx`` or ``caddy`` in a guide."""
    return re.findall(rf"```{program}\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)


def changed(site: str, changes: dict[str, str]) -> str:
    """With other ports and files; each must be in it."""
    assert all(text in site for text in changes), changes
    return re.sub("|".join(map(re.escape, changes)), lambda found: changes[found[0]], site)


@contextmanager
def nginx(folder: Path, port: int, certificate: Certificate, site: str) -> Iterator[str]:
    """Runs nginx with the configuration of a guide on 127.0.0.1; yields its address."""
    own = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/fedscape.pem": str(certificate.file),
        "/etc/ssl/fedscape.key": str(certificate.key),
    }
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, site=changed(site, own)))
    program = nginx_program()
    assert program
    with _running([program, "-p", str(folder), "-c", "nginx.conf"], folder, port, certificate) as url:
        yield url


@contextmanager
def caddy(folder: Path, port: int, certificate: Certificate, site: str) -> Iterator[str]:
    """Like ``nginx``."""
    own = {
        "fedscape.example.org {": (
            f"https://127.0.0.1:{port} {{\n    bind 127.0.0.1\n    tls {certificate.file} {certificate.key}"
        )
    }
    (folder / "Caddyfile").write_text(CADDY.format(site=changed(site, own)))
    program = caddy_program()
    assert program
    command = [program, "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    with _running(command, folder, port, certificate) as url:
        yield url


@contextmanager
def _running(command: list[str], folder: Path, port: int, certificate: Certificate) -> Iterator[str]:
    environment = os.environ | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    url, log = f"https://127.0.0.1:{port}", folder / "proxy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        until = time.monotonic() + START_S
        while not _answers(url, certificate):
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _answers(url: str, certificate: Certificate) -> bool:
    with suppress(httpx2.TransportError):
        httpx2.get(url, verify=certificate.trust)
        return True
    return False
