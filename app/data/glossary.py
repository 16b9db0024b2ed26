"""The terms of docs/glossary.md, the one source of definitions, also of tooltips."""

import re
from functools import cache

from engine.core.paths import ROOT

FILE = ROOT / "docs" / "glossary.md"
_ENTRY = re.compile(r"\*\*(.+?)\.\*\*\s+(.+)", re.DOTALL)


@cache
def terms() -> dict[str, str]:
    """Term -> its definition on one line, in the order of the file."""
    return dict(entries(FILE.read_text(encoding="utf-8")))


def entries(text: str) -> list[tuple[str, str]]:
    """The paragraphs that begin with a bold term."""
    found = (_ENTRY.fullmatch(paragraph.strip()) for paragraph in re.split(r"\n\s*\n", text))
    return [(entry[1], " ".join(entry[2].split())) for entry in found if entry]


def definition(term: str) -> str:
    """Raises KeyError for a term that the glossary does not have."""
    return terms()[term]
