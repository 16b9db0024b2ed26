"""Terms of the glossary in the text of a page: the first use of each is underlined, and opens its definition.

The mark is a button with a popover, so it works with Tab, Enter and Escape; ``keyboard.js`` opens it on hover. A text
in a fragment has a ``place``: when the fragment is redrawn alone, it marks the same terms again, but none that the rest
of the page has marked. In Presentation there are no marks.
"""

import html
import re
from collections.abc import MutableMapping
from typing import cast

import streamlit as st

from app.charts.plot import palette
from app.data import glossary

_KEY = "terms"
_TAG = re.compile(r"(<[^>]*>)")
_QUOTED = re.compile(r"“[^”]*”")  # names that users chose
_CLOSING = re.compile(r"[.,:;!?)]+")
_UNMARKED = re.compile(r"<(/?)(?:a|button|code|dt|h[1-6]|i|pre|sub|summary|sup|th)\b")  # inside of these


def forget() -> None:
    """Called by the shell before any page."""
    st.session_state.pop(_KEY, None)


def caption(text: str, place: str = "") -> None:
    """``st.caption`` for a text that is shown literally, with its terms marked."""
    st.html(f'<p class="caption">{marked(text, place)}</p>')


def paragraph(text: str, place: str = "") -> None:
    """A text that is shown literally, with its terms marked."""
    st.html(f'<p class="text">{marked(text, place)}</p>')


def marked(text: str, place: str = "") -> str:
    """The text as HTML, escaped, with its terms marked."""
    return marked_html(html.escape(text), place)


def marked_html(body: str, place: str = "") -> str:
    """Like ``marked``, for HTML, whose links, code and headings stay as they are."""
    if palette.is_presenting():
        return body
    owners = _owners()
    for term in [term for term, owner in owners.items() if place and owner == place]:
        del owners[term]
    pieces, depth = _TAG.split(body), 0
    for at, piece in enumerate(pieces):
        if tag := _UNMARKED.match(piece):
            depth += -1 if tag[1] else 1
        elif not depth and not piece.startswith("<"):
            pieces[at] = _marked(piece, place, owners)
    return "".join(pieces)


def _marked(escaped: str, place: str, owners: MutableMapping[str, str]) -> str:
    out, end = [], 0
    quoted = [found.span() for found in _QUOTED.finditer(escaped)]
    for use in glossary.uses(escaped):
        if use.term in owners or any(start < use.start < end for start, end in quoted):
            continue
        owners[use.term] = place
        before, mark = escaped[end : use.start], _mark(use.term, escaped[use.start : use.end])
        opening, closing = "(" if before.endswith("(") else "", _CLOSING.match(escaped, use.end)
        end = closing.end() if closing else use.end
        if opening or closing:  # a line may break between a bracket, or a period, and a button
            mark = f'<span class="unbroken">{opening}{mark}{escaped[use.end : end]}</span>'
        out += [before.removesuffix("("), mark]
    return "".join([*out, escaped[end:]])


def _mark(term: str, shown: str) -> str:
    name = "term-" + re.sub(r"\W+", "-", term.casefold()).strip("-")
    return (
        f'<button type="button" class="term" popovertarget="{name}" popovertargetaction="show">{shown}</button>'
        f'<span popover id="{name}" class="tip">{html.escape(glossary.tip(term))}</span>'
    )


def _owners() -> MutableMapping[str, str]:
    """Term -> the place that has its mark; empty for a text without one."""
    return cast("MutableMapping[str, str]", st.session_state.setdefault(_KEY, {}))
