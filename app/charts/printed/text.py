"""Texts of a figure, which are never markup: plain letters, and whether they are bold."""

import html
import re
from typing import NamedTuple

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?(?:b|i|sub|sup|extra)>")  # those that our charts use
_BOLD = re.compile(r"^\s*<b>")
# XML allows no other control characters, and no surrogates.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Words(NamedTuple):
    text: str
    is_bold: bool


def words(text: object) -> Words:
    """The text that Plotly shows, and whether it begins in bold. Tags that our charts do not use are kept as text."""
    raw = "" if text is None else str(text)
    shown = html.unescape(_TAG.sub("", _BREAK.sub("\n", raw)))
    return Words(_FORBIDDEN.sub("", shown).replace("\t", " ").replace("\r", ""), bool(_BOLD.match(raw)))
