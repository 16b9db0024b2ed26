"""The rules of this installation, from environment variables."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.access.errors import InvalidSetting
from engine.core.environment import finite_number

GUIDE = "docs/how-to/share-with-others.md"
MIN_SECRET_LENGTH = 32  # characters
REQUIRED = (
    "FEDSCAPE_OIDC_ISSUER",
    "FEDSCAPE_OIDC_CLIENT_ID",
    "FEDSCAPE_OIDC_CLIENT_SECRET",
    "FEDSCAPE_COOKIE_SECRET",
    "FEDSCAPE_URL",
)
DEFAULT_PORTS = {"http": 80, "https": 443}  # which a browser leaves out of the header Origin
NEED_SIGN_IN = ("FEDSCAPE_ADMINS", "FEDSCAPE_MEMBERS")
_NAME = re.compile(r"[^@;\n]+|[^@;*\s]+@[^@;\s]+")  # a group, or an e-mail address


@dataclass(frozen=True)
class SignIn:
    """The OpenID Connect provider. ``url`` is the address of the app for browsers, without a path."""

    issuer: str
    client_id: str
    client_secret: str
    cookie_secret: str
    url: str
    session_s: float | None  # after the ID token was issued; None: until it expires
    groups_claim: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


@dataclass(frozen=True)
class Rules:
    """``admins`` and ``members`` are e-mail addresses and groups in lower case; no ``members`` means everyone."""

    sign_in: SignIn | None
    admins: frozenset[str]
    members: frozenset[str]
    is_read_only: bool


def rules(environment: Mapping[str, str]) -> Rules:
    """Raises InvalidSetting."""
    return Rules(
        sign_in=_sign_in(environment),
        admins=_names(environment, "FEDSCAPE_ADMINS"),
        members=_names(environment, "FEDSCAPE_MEMBERS"),
        is_read_only=is_read_only(environment),
    )


def is_read_only(environment: Mapping[str, str]) -> bool:
    """Whether nobody may queue or change anything. Raises InvalidSetting."""
    text = environment.get("FEDSCAPE_READ_ONLY") or "0"
    if text not in ("0", "1"):
        raise InvalidSetting(f"FEDSCAPE_READ_ONLY is {text!r}, but must be 0, 1 or unset")
    return text == "1"


def is_open(environment: Mapping[str, str]) -> bool:
    """Whether other computers reach the app without sign-in, as FEDSCAPE_OPEN=1 allows."""
    listens = not is_loopback(environment.get("HOST") or "127.0.0.1")
    return listens and environment.get("FEDSCAPE_OPEN") == "1" and not uses_sign_in(environment)


def uses_sign_in(environment: Mapping[str, str]) -> bool:
    return any(environment.get(name) for name in REQUIRED)


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach what listens at ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sign_in(environment: Mapping[str, str]) -> SignIn | None:
    given = {name: (environment.get(name) or "").strip() for name in REQUIRED}
    if not any(given.values()):
        if extra := [name for name in NEED_SIGN_IN if environment.get(name)]:
            raise InvalidSetting(f"{' and '.join(extra)} need sign-in: set {', '.join(REQUIRED)} too ({GUIDE})")
        return None
    if missing := [name for name, value in given.items() if not value]:
        raise InvalidSetting(f"sign-in also needs {', '.join(missing)} ({GUIDE})")
    issuer, client_id, client_secret, cookie_secret, url = given.values()
    if len(cookie_secret) < MIN_SECRET_LENGTH:
        raise InvalidSetting(
            f"FEDSCAPE_COOKIE_SECRET has {len(cookie_secret)} characters, but must have at least {MIN_SECRET_LENGTH}, "
            'at random: python -c "import secrets; print(secrets.token_hex(32))"'
        )
    hours = _number(environment, "FEDSCAPE_SESSION_HOURS")
    return SignIn(
        _address("FEDSCAPE_OIDC_ISSUER", issuer),
        client_id,
        client_secret,
        cookie_secret,
        _without_path(_address("FEDSCAPE_URL", url)),
        None if hours is None else hours * 3600,
        environment.get("FEDSCAPE_GROUPS_CLAIM") or "groups",
    )


def _address(name: str, text: str) -> str:
    """An address over TLS, or of this computer: tokens and cookies pass through it."""
    try:
        parts = urlsplit(text)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
        if is_safe and parts.hostname and parts.port != 0:  # raises ValueError for an invalid port
            return text.rstrip("/")
    except ValueError:
        pass
    raise InvalidSetting(f"{name} is {text!r}, but must be an address that starts with https://")


def _without_path(url: str) -> str:
    parts = urlsplit(url)
    if parts.path or parts.query or parts.fragment or parts.username:
        raise InvalidSetting(
            f"FEDSCAPE_URL is {url!r}, but must be {parts.scheme}://name or {parts.scheme}://name:port"
        )
    return f"{parts.scheme}://{_origin_host(url)}"


def _origin_host(url: str) -> str:
    """Host and port as browsers send them in the header Origin: in ASCII, and without the scheme's own port."""
    parts = urlsplit(url)
    try:
        host = (parts.hostname or "").encode("ascii" if ":" in (parts.hostname or "") else "idna").decode()
    except UnicodeError:
        raise InvalidSetting(f"FEDSCAPE_URL is {url!r}, but {parts.hostname!r} is not a valid host name") from None
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, DEFAULT_PORTS[parts.scheme]) else f"{host}:{parts.port}"


def _names(environment: Mapping[str, str], setting: str) -> frozenset[str]:
    """A list that is set names somebody: without members, everyone who signs in would be one."""
    text = environment.get(setting)
    if not text:
        return frozenset()
    names = frozenset(filter(None, (name.strip().lower() for name in text.split(","))))
    if not names:
        raise InvalidSetting(f"{setting} is {text!r}, but must name at least one person or group, or be unset")
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise InvalidSetting(
                f"{setting} has {name!r}, but each name must be an e-mail address or a group; separate them with commas"
            )
    return names


def _number(environment: Mapping[str, str], name: str) -> float | None:
    text = environment.get(name)
    if not text:
        return None
    value = finite_number(text)
    if value is None or value <= 0:
        raise InvalidSetting(f"{name} is {text!r}, but must be a number above 0, or unset")
    return value
