"""Where the app listens, from environment variables."""

import errno
import importlib.util
import ipaddress
import socket
from collections.abc import Mapping

from app.access.errors import InvalidSetting
from app.access.rules import GUIDE, is_loopback, rules, uses_sign_in
from engine.core.errors import InvalidConfig, PluginBroken
from engine.core.paths import ROOT
from engine.core.registry import check_plugin_folders
from storage import StorageError, Store

DEFAULT_HOST, DEFAULT_PORT, LAST_PORT = "127.0.0.1", 8501, 65535
MAX_WEB_SERVERS = 16


def host(environment: Mapping[str, str]) -> str:
    return environment.get("HOST") or DEFAULT_HOST


def port(environment: Mapping[str, str]) -> int:
    """The port of the first web server."""
    return _whole_number("PORT", environment.get("PORT"), DEFAULT_PORT, LAST_PORT)


def web_servers(environment: Mapping[str, str]) -> int:
    """The number of web servers."""
    return _whole_number("FEDSCAPE_WEB", environment.get("FEDSCAPE_WEB"), 1, MAX_WEB_SERVERS)


def ports(environment: Mapping[str, str]) -> range:
    """The ports of the web servers. Raises InvalidSetting."""
    first, number = port(environment), web_servers(environment)
    if first + number - 1 > LAST_PORT:
        raise InvalidSetting(
            f"PORT is {first}, and FEDSCAPE_WEB is {number}: the ports would go beyond {LAST_PORT}; choose PORT="
            f"{LAST_PORT - number + 1} or lower"
        )
    return range(first, first + number)


def _whole_number(name: str, given: str | None, default: int, maximum: int) -> int:
    text = given or str(default)
    if not text.isdecimal() or len(text) > len(str(maximum)) or not 1 <= int(text) <= maximum:
        raise InvalidSetting(f"{name} is {text!r}, but must be a whole number from 1 to {maximum}")
    return int(text)


def allowed_hosts(environment: Mapping[str, str]) -> list[str]:
    """Host names that the app accepts: this machine's, HOST, and those in ALLOWED_HOSTS.

    All others are rejected, so that a foreign page cannot reach the app through a DNS name that points here.
    """
    names = ["127.0.0.1", "localhost"]
    if listens_everywhere(environment):
        names += [socket.gethostname()]
    else:
        names += [host(environment), _in_address(host(environment))]
    names += [name.strip() for name in environment.get("ALLOWED_HOSTS", "").split(",")]
    if uses_sign_in(environment) and (sign_in := rules(environment).sign_in):
        names.append(sign_in.host)
    return list(dict.fromkeys(filter(None, names)))


def listens_everywhere(environment: Mapping[str, str]) -> bool:
    """HOST=0.0.0.0 or ::"""
    try:
        return ipaddress.ip_address(host(environment)).is_unspecified
    except ValueError:
        return False


def addresses(environment: Mapping[str, str]) -> list[str]:
    """The URLs of the web servers."""
    name = DEFAULT_HOST if listens_everywhere(environment) else host(environment)
    return [f"http://{_in_address(name)}:{number}" for number in ports(environment)]


def check_access(environment: Mapping[str, str]) -> None:
    """Raises InvalidSetting if other computers could reach an app without sign-in and FEDSCAPE_OPEN is not set."""
    now = rules(environment)
    if now.sign_in is not None:
        _check_limits()
        if importlib.util.find_spec("authlib") is None:
            raise InvalidSetting("sign-in needs Authlib: run make run once, or pip install -r requirements.txt")
        return
    if is_loopback(host(environment)) or environment.get("FEDSCAPE_OPEN") == "1":
        return
    raise InvalidSetting(
        f"HOST is {host(environment)}: other computers could reach Fedscape, and everyone there could see, queue and "
        "delete everything, since nobody has to sign in. Choose one:\n"
        f"- let people sign in: {GUIDE} has the five variables;\n"
        "- unset HOST and forward the port: ssh -N -L 8501:127.0.0.1:8501 this-server;\n"
        "- FEDSCAPE_OPEN=1 if everyone on the network may do everything, or FEDSCAPE_OPEN=1 FEDSCAPE_READ_ONLY=1 if "
        "they may only view it."
    )


def _check_limits() -> None:
    from engine.worker.limits import owner_limits  # here, since only sign-in needs it

    try:
        owner_limits()
    except InvalidConfig as error:
        raise InvalidSetting("; ".join(error.problems)) from error


def check_database(environment: Mapping[str, str]) -> None:
    """Raises InvalidSetting."""
    try:
        Store(environment.get("DATABASE_URL") or Store.default_url(ROOT)).close()
    except (StorageError, ValueError) as error:  # ValueError: a port that is no number
        raise InvalidSetting(f"DATABASE_URL cannot be used: {error}") from error


def check_plugins() -> None:
    """Raises InvalidSetting if a folder of plugins is missing."""
    try:
        check_plugin_folders()
    except PluginBroken as error:
        raise InvalidSetting(str(error)) from None


def check_ports(environment: Mapping[str, str]) -> None:
    """Raises InvalidSetting if HOST and the ports cannot be bound now."""
    name = host(environment)
    for number in ports(environment):
        try:
            family, _, _, _, place = socket.getaddrinfo(name, number, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(
                    socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
                )  # as the server does, for a port that was just closed
                probe.bind(place)
                probe.listen(1)
        except OSError as error:
            raise InvalidSetting(_cannot_listen(environment, number, error)) from error


def _cannot_listen(environment: Mapping[str, str], number: int, error: OSError) -> str:
    name = host(environment)
    other = f"choose another port, for example PORT={9100 if 9000 in ports(environment) else 9000} make run"
    if error.errno == errno.EADDRINUSE:
        number_of = web_servers(environment)
        needed = f" (FEDSCAPE_WEB={number_of} needs {number_of} consecutive ports)" if number_of > 1 else ""
        return (
            f"Port {number} is already in use on {name} by another program or another Fedscape{needed}: stop it, or "
            f"{other}"
        )
    if error.errno == errno.EACCES:
        return f"PORT is {number}, which requires administrator rights; {other}"
    return f"HOST is {name!r}, but this machine cannot listen there ({error.strerror}); the default is {DEFAULT_HOST}"


def _in_address(name: str) -> str:
    """As written in a URL: IPv6 in brackets."""
    return f"[{name}]" if ":" in name else name
