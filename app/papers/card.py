"""A figure or table in one picture and one line. The cards of shipped results ship as well: drawing all takes a second.

``python -m benchmarks.paper_cards`` writes them; a card that is not of the shipped numbers is drawn when it is shown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.charts import paper_comparison
from app.data.comparison import FEW_SEEDS
from app.data.shipped import FOLDER, checksum
from app.papers.claim import STATES, State, verdicts, worst
from app.papers.figures import first_figure, printed
from app.papers.results import Results
from app.papers.sketch import sketch
from app.wording import plural
from engine.config.presets import Preset

MARKS: dict[State, str] = {"holds": "✓", "fails": "✗", "unclear": "~"}
IN_PART = "◐"
MARKS_IN_WORDS = {MARKS[state]: words for state, words in STATES.items()} | {IN_PART: "Holds in part"}
SHIPPED = FOLDER.with_name("paper_cards.json")
CARDS_KEPT = 100


@dataclass(frozen=True)
class Card:
    """``picture`` is an SVG in light colors, or empty; ``verdict`` one line about the ``claims`` or the numbers.

    ``claims``: whether each holds, by what it says.
    """

    picture: str = ""
    verdict: str = ""
    claims: Mapping[str, State] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """``◐`` if some claims hold and others do not, else the mark of all."""
        states = set(self.claims.values())
        if len(states) > 1 and "holds" in states:
            return IN_PART
        return MARKS[worst(states)] if states else ""


def card_of(results: Results) -> Card:
    """Cached until its runs or their analyses change."""
    return _card(results.preset.name, results.scale, results.stamp, results)


def shipped_card(preset: Preset, scale: str) -> Card | None:
    """The card that ships, if it is of the numbers that ship and of the preset's settings."""
    found = shipped_cards(SHIPPED).get(f"{preset.name}.{scale}")
    if found is None or found["of"] != checksum(preset, scale):
        return None
    return Card(found["picture"], found["verdict"], found["claims"])


@cache
def shipped_cards(path: Path) -> dict[str, dict[str, Any]]:
    """``cgpfl-fig3.quick`` -> the card, and the checksum of the numbers that it shows."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


@st.cache_resource(show_spinner=False, max_entries=CARDS_KEPT)
def _card(name: str, scale: str, stamp: object, _results: Results) -> Card:
    return drawn(_results)


def drawn(results: Results) -> Card:
    if not results.runs:
        return Card()
    return replace(in_words(results), picture=sketch(lambda: first_figure(results)))


def in_words(results: Results) -> Card:
    """The card of results with runs, without its picture, which takes the longest."""
    found = verdicts(results)
    claims = {verdict.claim.says: verdict.state for verdict in found}
    numbers = of_numbers(results)
    untested = [verdict.seeds for verdict in found if not verdict.is_tested]
    few = min(untested) if len(untested) == len(found) > 0 else 0
    words = of_claims(list(claims.values()), few, is_alone=not numbers)
    if untested and not few:
        words += " (some not tested)"
    return Card(verdict=" · ".join(filter(None, [words, numbers])), claims=claims)


def of_claims(states: Sequence[State], few: int = 0, *, is_alone: bool = True) -> str:
    """``2 of 3 claims hold here``; with too ``few`` seeds for a test, ``2 of 3 claims hold in one seed``.

    A single claim: ``Holds here``, or ``Claim: holds here`` unless it ``is_alone`` on the card.
    """
    if not states:
        return ""
    where = f"in {FEW_SEEDS[few]}" if few else "here"
    if len(states) == 1:
        head = f"{STATES[states[0]]} {where}"
        return head if is_alone else f"Claim: {head.lower()}"
    count = states.count("holds")
    return f"{count} of {len(states)} claims {'holds' if count == 1 else 'hold'} {where}"


def of_numbers(results: Results) -> str:
    """``4 of 9 numbers within 1 point``; empty at quick scale, which is not expected to match the printed numbers."""
    if results.scale == "quick":
        return ""
    table = printed(results).dropna(subset=["difference"])
    close = int((table["difference"].abs() <= paper_comparison.CLOSE + 1e-9).sum())
    return f"{close} of {plural(len(table), 'number')} within 1 point" if len(table) else ""
