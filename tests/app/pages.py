"""A page of the app, opened by its address, and all its text."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.support.signing_in import claims

VIEWS = Path(__file__).resolve().parents[2] / "app" / "views"
ENOUGH_S = 90.0


def open_page(name: str, /, **address: object) -> AppTest:
    """Opens ``/name?address``; fails if the page does."""
    return _opened(name, address)


def visit(name: str, email: str, /, **address: object) -> AppTest:
    """Opens the page for somebody who has signed in."""
    return _opened(name, address, claims(email))


def _opened(name: str, address: Mapping[str, object], user: Mapping[str, Any] | None = None) -> AppTest:
    page = AppTest.from_file(str(VIEWS / f"{name}.py"), default_timeout=ENOUGH_S)
    if user is not None:
        page.user = dict(user)
    for key, value in address.items():
        page.query_params[key] = str(value)
    page.run()
    assert not page.exception
    return page


def words(page: AppTest) -> str:
    """The visible text: Markdown without backslashes, with ordinary spaces and hyphens."""
    elements = [
        *page.title,
        *page.header,
        *page.subheader,
        *page.markdown,
        *page.text,
        *page.caption,
        *page.code,
        *page.info,
        *page.warning,
        *page.error,
        *page.get("html"),
    ]
    text = re.sub(r"\\(.)", r"\1", without_marks("\n".join(element.value for element in elements)))
    return text.replace("\u00a0", " ").replace("\u2011", "-")


def without_marks(html: str) -> str:
    """The HTML as it was before terms of the glossary were marked."""
    plain = re.sub(r'<button [^>]*class="term"[^>]*>(.*?)</button><span popover.*?</span>', r"\1", html)
    return re.sub(r'<span class="unbroken">(.*?)</span>', r"\1", plain)
