"""The cookie by which a room recognizes a browser: a random secret, of which the database stores digests only."""

import hashlib
import re
import secrets
from collections.abc import Mapping

COOKIE = "fedscape_room_reader"  # the guide's proxies use fedscape_reader to choose a server
MAX_AGE_S = 7 * 24 * 3600  # since the last page
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def secret_in(cookies: Mapping[str, str]) -> str | None:
    """Return the secret among these cookies; None without a valid one."""
    value = cookies.get(COOKIE, "")
    return value if _SECRET.fullmatch(value) else None


def reader_id(secret: str, code: str) -> str:
    """Return the id of a reader in one room. The ids of a browser in two rooms cannot be linked."""
    return _digest("reader", secret, code)


def lecturer_key(secret: str, code: str) -> str:
    """Return the digest by which a room recognizes the browser that opened it."""
    return _digest("lecturer", secret, code)


def _digest(role: str, secret: str, code: str) -> str:
    return hashlib.sha256(f"{role} {code} {secret}".encode()).hexdigest()
