"""People who sign in: the settings, their claims, and the cookie that Streamlit would set."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from app.access import permits
from app.access.people import Person
from app.access.roles import Role

SECRET = "a secret of more than thirty-two characters"
URL = "http://127.0.0.1:8501"
ISSUER = "http://127.0.0.1:9"
SETTINGS = {
    "FEDSCAPE_OIDC_ISSUER": ISSUER,
    "FEDSCAPE_OIDC_CLIENT_ID": "fedscape",
    "FEDSCAPE_OIDC_CLIENT_SECRET": "known to both",
    "FEDSCAPE_COOKIE_SECRET": SECRET,
    "FEDSCAPE_URL": URL,
}
ROLES = {"FEDSCAPE_ADMINS": "root@lab.test, Staff", "FEDSCAPE_MEMBERS": "ada@lab.test,bob@lab.test,students"}
MEMBER, OTHER = Person("ada@lab.test", "member"), Person("bob@lab.test", "member")
PEOPLE: dict[Role, Person] = {
    "admin": Person("root@lab.test", "admin"),
    "member": MEMBER,
    "visitor": Person("guest@lab.test", "visitor"),
}


def people_sign_in(monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """Switches sign-in on for this process."""
    for name, value in (SETTINGS | ROLES | more).items():
        monkeypatch.setenv(name, value)


@contextmanager
def as_person(person: Person) -> Iterator[None]:
    """Act as this person within the context."""
    with permits.requested_by(person):
        yield


def claims(email: str = MEMBER.name, **changes: Any) -> dict[str, Any]:
    """The content of a cookie; None removes a claim."""
    now = int(time.time())
    own = {
        "iss": ISSUER,
        "aud": "fedscape",
        "sub": f"id of {email}",
        "email": email,
        "email_verified": True,
        "iat": now,
        "exp": now + 3600,
        "origin": URL,
        "is_logged_in": True,
        "provider": "default",
    }
    return {name: value for name, value in (own | changes).items() if value is not None}


def cookie(content: dict[str, Any], secret: str = SECRET, name: str = USER_COOKIE_NAME) -> dict[str, str]:
    """The signed cookie. A cookie is signed with its name."""
    return {USER_COOKIE_NAME: create_signed_value(secret, name, json.dumps(content)).decode()}
