"""A browser in a room: a random secret in a cookie, from which the room gets digests, never the secret or a name."""

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
    """The secret of the browser that sent these cookies; None without a valid one."""
    value = cookies.get(COOKIE, "")
    return value if _SECRET.fullmatch(value) else None


def reader_id(secret: str, code: str) -> str:
    """The reader's id in one room: ids in two rooms cannot be linked."""
    return _digest("reader", secret, code)


def lecturer_key(secret: str, code: str) -> str:
    """What a room stores of the browser that opened it."""
    return _digest("lecturer", secret, code)


def _digest(role: str, secret: str, code: str) -> str:
    return hashlib.sha256(f"{role} {code} {secret}".encode()).hexdigest()
