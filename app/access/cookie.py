"""The signed cookie that Streamlit sets after a sign-in, read for requests that Streamlit does not check itself."""

import json
from collections.abc import Mapping
from typing import Any

from streamlit.auth_util import get_cookie_with_chunks
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from app.access.rules import SignIn


def claims_of(cookies: Mapping[str, str], sign_in: SignIn) -> dict[str, Any]:
    """The claims in the cookie; none if it is forged or of another address. ``people.signed_in`` checks the rest."""

    def read(name: str) -> bytes | None:
        value = cookies.get(name)
        return decode_signed_value(sign_in.cookie_secret, name, value.encode("latin-1", "replace")) if value else None

    try:
        claims = json.loads(get_cookie_with_chunks(read, USER_COOKIE_NAME) or b"{}")
    except ValueError:
        return {}
    is_own = isinstance(claims, dict) and claims.get("origin") == sign_in.url
    return claims if is_own else {}
