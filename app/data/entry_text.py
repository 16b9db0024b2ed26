"""The description of a registered entry: the docstring of its file, parsed.

    title sentence / citation / indented equations / paragraphs that begin with a label: Idea, Sent, ...

All parts are optional: one sentence is enough.
"""

import inspect
import re
import sys
from dataclasses import dataclass, field
from functools import cache

from engine.core.registry import Entry

LABELS = ("Idea", "When", "Needs", "Sent", "Kept", "Cost", "Newcomers", "Deviations", "Pitfalls", "Diagnostics")
_NAMES = "|".join(LABELS)
_LABEL = re.compile(rf"({_NAMES}): ")
_NEXT_LABEL = re.compile(rf"(?:(?<=[.;])\s|\n)(?=(?:{_NAMES}): )")  # ``Sent: w. Kept: v_i.`` has two labels


@dataclass(frozen=True)
class EntryText:
    """The parts of a docstring, each as plain text on one line."""

    summary: str = ""  # the first sentence, without the name before its colon
    citation: str = ""
    equations: tuple[str, ...] = ()  # lines, indented as they are; an empty one between two blocks
    labeled: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # paragraphs without a label


def text_of(entry: Entry) -> EntryText:
    """The docstring of the file that registered the entry."""
    module = sys.modules.get(entry.make.__module__)
    return parse(getattr(module, "__doc__", None) or "", entry.title)


def needs(entry: Entry) -> str:
    """What the method needs, in the words of its docstring; empty if it says nothing."""
    return text_of(entry).labeled.get("Needs", "")


@cache
def parse(docstring: str, title: str = "") -> EntryText:
    first, *paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring)) or [""]
    citation = ""
    equations: list[str] = []
    labeled: dict[str, str] = {}
    remarks: list[str] = []
    for paragraph in paragraphs:
        lines = paragraph.splitlines()
        formulas = [line for line in lines if line.startswith("    ")]
        prose = "\n".join(line.strip() for line in lines if not line.startswith("    "))
        if formulas:
            equations += [*([""] if equations else []), *formulas]
        if _LABEL.match(prose):
            labeled |= dict(_one_line(part).split(": ", 1) for part in _NEXT_LABEL.split(prose))
        elif prose and not (citation or equations or labeled or remarks):
            citation = _one_line(prose)
        elif prose:
            remarks.append(_one_line(prose))
    ordered = {label: labeled[label] for label in LABELS if label in labeled}
    return EntryText(_summary(first, title), citation, tuple(equations), ordered, tuple(remarks))


def _summary(first: str, title: str) -> str:
    """``Ditto: a personalized model`` -> ``A personalized model``."""
    text = _one_line(first)
    name, colon, rest = text.partition(": ")
    text = rest if colon and (not title or name.casefold() == title.casefold() or len(name.split()) <= 3) else text
    return text if re.match(r"[a-z]\w*[A-Z]", text) else text[:1].upper() + text[1:]  # pFedHN is unchanged


def _one_line(text: str) -> str:
    return " ".join(text.split())
