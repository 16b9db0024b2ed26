"""Finds the terms of docs/glossary.md in a text. That file is the only source of definitions, also for tooltips."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from engine.core.paths import ROOT

FILE = ROOT / "docs" / "glossary.md"
_ENTRY = re.compile(r"\*\*(.+?)\.\*\*\s+(.+)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z])")
_WITH_SYMBOL = re.compile(r"(\w+) \((\w)\)")  # Epsilon (ε): found by either
# These words are also verbs or parts of the body: they count as terms only after a word that precedes nouns.
_AMBIGUOUS = ("Archive", "Body", "Drift", "Head", "Queue", "Run", "Sweep")
_BEFORE_NOUNS = re.compile(
    r"(?i)(?:\b(?:a|all|an|any|both|during|each|every|its|more|no|of|one|other|per|same|the|these|this|those|with)"
    r"|\d)\s\Z"
)


@dataclass(frozen=True)
class Use:
    """A term in a text, from ``start`` to ``end``."""

    term: str
    start: int
    end: int


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


def tip(term: str) -> str:
    """The first sentence of the definition."""
    return _SENTENCE.split(terms()[term])[0]


def uses(text: str) -> Iterator[Use]:
    """All terms that the text uses, in singular or plural. Of two at one place, the longer."""
    names, pattern = _pattern()
    for found in pattern.finditer(text):
        term = names[(found.lastindex or 0) - 1]
        if term not in _AMBIGUOUS or _BEFORE_NOUNS.search(text[: found.start()]):
            yield Use(term, found.start(), found.end())


@cache
def _pattern() -> tuple[list[str], re.Pattern[str]]:
    """The terms, and a pattern whose n-th group is the n-th of them."""
    names = sorted(terms(), key=len, reverse=True)
    alternatives = "|".join(f"({_inflected(name)})" for name in names)
    return names, re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])", re.IGNORECASE)


def _inflected(term: str) -> str:
    """Singular or plural: ``clients``, ``analyses``. A symbol counts without a value: ``ε = 1`` may be any option."""
    if found := _WITH_SYMBOL.fullmatch(term):
        name, symbol = found.groups()
        return rf"{name}(?:\s\({symbol}\))?|{symbol}(?!\s=)"
    words = r"\s".join(map(re.escape, term.split()))
    if term.endswith("sis"):
        return f"{words[:-2]}[ei]s"
    return words if term.endswith(("s", "%")) else f"{words}s?"
